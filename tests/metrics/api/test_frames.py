"""A stream of results: a frame for each sample, by rising time."""

import json
import math
from typing import Any

import numpy as np
import pytest

from quarterdeck.metrics.api.frames import ResultFrames
from quarterdeck.metrics.api.samples import CHUNK_BYTES
from quarterdeck.metrics.promql.blocks import Axis, Block, Grid, ScalarBlock, StringBlock, VectorBlock
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels

UP: Labels = (("__name__", "up"), ("job", "a"))
DOWN: Labels = (("job", 'b"'),)
GRID = Grid(-1000, 1000, 3)


def frames(grid: Grid, block: Block) -> list[Any]:
    return read(b"".join(ResultFrames().of(grid, block)))


def read(data: bytes) -> list[Any]:
    *found, rest = data.decode().split("\n\n")
    assert rest == ""
    assert all(one.startswith("data: ") and "\n" not in one for one in found)
    return [json.loads(one.removeprefix("data: ")) for one in found]


def test_samples_come_by_time_and_then_in_the_order_of_the_series() -> None:
    present = np.array([[True, False, True], [True, True, False]])
    block = VectorBlock(Axis.of([UP, DOWN]), np.array([[1.0, 0.0, 0.5], [1e21, 1e-7, 0.0]]), present)
    assert (
        b"".join(ResultFrames().of(GRID, block))
        .decode()
        .startswith(
            'data: {"type":"result","data":{"tags":{"__name__":"up","job":"a"},"value":1,"timestamp":-1000,'
            '"label":"up{job=\\"a\\"}"}}\n\ndata: '
        )
    )
    found = [one["data"] for one in frames(GRID, block)]
    assert [(one["timestamp"], one["label"], one["value"]) for one in found] == [
        (-1000, 'up{job="a"}', 1.0),
        (-1000, '{job="b\\""}', 1e21),
        (0, '{job="b\\""}', 1e-7),
        (1000, 'up{job="a"}', 0.5),
    ]


def test_what_is_no_number_in_json_is_a_text() -> None:
    block = VectorBlock(Axis.of([UP]), np.array([[math.nan, math.inf, -math.inf]]), np.ones((1, 3), np.bool_))
    assert [one["data"]["value"] for one in frames(GRID, block)] == ["NaN", "+Inf", "-Inf"]


def test_a_scalar_has_no_tags() -> None:
    assert frames(Grid(5, 1, 1), ScalarBlock(np.array([2.5]))) == [
        {"type": "result", "data": {"tags": {}, "value": 2.5, "timestamp": 5, "label": "{}"}}
    ]


def test_a_string_is_no_result_of_a_range() -> None:
    with pytest.raises(TypeError):
        frames(GRID, StringBlock("a"))


def test_a_histogram_stands_in_a_member_of_its_own() -> None:
    histograms = np.full((2, 3), None, object)
    histograms[0, 1] = NativeHistogram(count=1, total=1, positive=((0, 1.0),))
    block = VectorBlock(Axis.of([UP, DOWN]), np.ones((2, 3)), np.ones((2, 3), np.bool_), histograms)
    found = [one["data"] for one in frames(GRID, block)]
    assert [one["timestamp"] for one in found] == [-1000, -1000, 0, 0, 1000, 1000]
    (histogram,) = [one for one in found if "histogram" in one]
    assert histogram == {
        "tags": dict(UP),
        "histogram": {"count": "1", "sum": "1", "buckets": [[0, "0.5", "1", "1"]]},
        "timestamp": 0,
        "label": 'up{job="a"}',
    }


def test_many_frames_come_in_chunks_that_end_between_frames() -> None:
    rows, steps = 500, 20
    values = np.random.default_rng(1).random((rows, steps))
    present = np.random.default_rng(2).random((rows, steps)) < 0.9
    axis = Axis.of([(("instance", f"host-{row}"),) for row in range(rows)])
    chunks = list(ResultFrames().of(Grid(0, 15_000, steps), VectorBlock(axis, values, present)))
    assert len(chunks) > 5
    assert all(len(chunk) <= 2 * CHUNK_BYTES and chunk.endswith(b"\n\n") for chunk in chunks)
    found = [one["data"] for one in read(b"".join(chunks))]
    assert [one["value"] for one in found] == values.T[present.T].tolist()
    assert [one["timestamp"] for one in found] == np.repeat(np.arange(steps) * 15_000, present.sum(axis=0)).tolist()


def test_a_block_with_nothing_in_it_gives_no_chunk() -> None:
    assert list(ResultFrames().of(GRID, VectorBlock.empty(3))) == []
    nothing = VectorBlock(Axis.of([UP]), np.zeros((1, 3)), np.zeros((1, 3), np.bool_))
    assert list(ResultFrames().of(GRID, nothing)) == []


def test_other_series_in_the_next_block_have_their_own_texts() -> None:
    made = ResultFrames()
    one, other = (VectorBlock(Axis.of([labels]), np.ones((1, 1)), np.ones((1, 1), np.bool_)) for labels in (UP, DOWN))
    data = b"".join(b"".join(made.of(Grid(0, 1, 1), block)) for block in (one, one, other))
    assert [frame["data"]["tags"] for frame in read(data)] == [dict(UP), dict(UP), dict(DOWN)]


def test_values_of_any_layout_are_read() -> None:
    values = np.arange(12.0).reshape(2, 6)[:, ::2]
    block = VectorBlock(Axis.of([UP, DOWN]), values, np.ones((3, 2), np.bool_).T)
    assert [one["data"]["value"] for one in frames(GRID, block)] == [0, 6, 2, 8, 4, 10]
