"""Answers are the JSON that Prometheus sends."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.api import samples
from quarterdeck.metrics.api.json_text import LabelTexts, json_bytes
from quarterdeck.metrics.api.rendering import LEAST_BYTES, render_result
from quarterdeck.metrics.promql.blocks import Axis, Objects, SeriesBlock
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.result import Result, Scalar, String, Value, Vector

UP: Labels = (("__name__", "up"), ("job", "a"))
DOWN: Labels = (("__name__", "down"),)
HISTOGRAM = NativeHistogram(
    zero_threshold=0.25, zero_count=3, count=44, total=34593.34, positive=((0, 12.0), (1, 0.0), (2, 29.0))
)
SHOWN = '{"count":"44","sum":"34593.34","buckets":[[3,"-0.25","0.25","3"],[0,"0.5","1","12"],[0,"2","4","29"]]}'


def body(value: Value, **more: Any) -> str:
    return b"".join(render_result(Result(value, **more))).decode()


def result(value: Value) -> Any:
    return json.loads(body(value))["data"]["result"]


def matrix(rows: dict[Labels, list[tuple[int, float]]]) -> SeriesBlock:
    points = [point for row in rows.values() for point in row]
    return SeriesBlock(
        Axis.of(list(rows)),
        np.cumsum([0, *(len(row) for row in rows.values())]),
        np.array([time for time, _ in points], np.int64),
        np.array([value for _, value in points], np.float64),
    )


def objects(*found: NativeHistogram | None) -> Objects:
    array = np.empty(len(found), object)
    array[:] = found
    return array


def test_a_scalar_is_what_grafana_checks_a_server_with() -> None:
    assert body(Scalar(4000, 2.0)) == '{"status":"success","data":{"resultType":"scalar","result":[4,"2"]}}'


def test_a_scalar_has_no_exponent_and_its_time_no_zeros() -> None:
    assert '"result":[-0.05,"0.00000005"]' in body(Scalar(-50, 5e-8))


def test_a_string() -> None:
    assert '"resultType":"string","result":[1.5,"a\\"b"]' in body(String(1500, 'a"b'))


def test_a_vector_keeps_its_order() -> None:
    shown = body(Vector(1500, (UP, DOWN), np.array([1.0, math.nan])))
    assert shown == (
        '{"status":"success","data":{"resultType":"vector","result":['
        '{"metric":{"__name__":"up","job":"a"},"value":[1.500,"1"]},'
        '{"metric":{"__name__":"down"},"value":[1.500,"NaN"]}]}}'
    )


def test_a_matrix() -> None:
    shown = body(matrix({UP: [(0, 1.0), (1435781430781, 0.5)], DOWN: [(-50, math.inf)]}))
    assert shown == (
        '{"status":"success","data":{"resultType":"matrix","result":['
        '{"metric":{"__name__":"up","job":"a"},"values":[[0,"1"],[1435781430.781,"0.5"]]},'
        '{"metric":{"__name__":"down"},"values":[[-0.050,"+Inf"]]}]}}'
    )


@pytest.mark.parametrize("value", [Vector(0, (), np.zeros(0)), SeriesBlock.empty()])
def test_nothing_is_an_empty_list(value: Value) -> None:
    assert result(value) == []


def test_the_name_that_goes_away_at_the_end_is_not_shown() -> None:
    block = matrix({UP: [(0, 1.0)]})
    shown = result(SeriesBlock(block.axis.without_names, block.offsets, block.timestamps, block.values))
    assert shown[0]["metric"] == {"job": "a"}


def test_notes_and_extra_members_have_their_places() -> None:
    chunks = render_result(Result(Scalar(0, 1.0), ("w\udcff",), ("i",)), {"explain": {"rows": 3}})
    assert b"".join(chunks).decode() == (
        '{"status":"success","data":{"resultType":"scalar","result":[0,"1"],"explain":{"rows":3}},'
        '"warnings":["w\ufffd"],"infos":["i"]}'
    )


def test_a_histogram_in_a_vector_leaves_out_buckets_that_count_nothing() -> None:
    vector = Vector(1000, (UP, DOWN, UP), np.array([0.0, 2.0, 0.0]), objects(HISTOGRAM, None, HISTOGRAM))
    assert body(vector).endswith(
        '[{"metric":{"__name__":"up","job":"a"},"histogram":[1,' + SHOWN + "]},"
        '{"metric":{"__name__":"down"},"value":[1,"2"]},'
        '{"metric":{"__name__":"up","job":"a"},"histogram":[1,' + SHOWN + "]}]}}"
    )


def test_a_series_may_have_values_and_histograms() -> None:
    block = matrix({UP: [(0, 1.0), (1000, 0.0), (2000, 3.0)], DOWN: [(0, 0.0)], (): [(5000, 7.0)]})
    mixed = SeriesBlock(
        block.axis, block.offsets, block.timestamps, block.values, objects(None, HISTOGRAM, None, HISTOGRAM, None)
    )
    assert body(mixed).endswith(
        '[{"metric":{"__name__":"up","job":"a"},"values":[[0,"1"],[2,"3"]],"histograms":[[1,' + SHOWN + "]]},"
        '{"metric":{"__name__":"down"},"histograms":[[0,' + SHOWN + "]]},"
        '{"metric":{},"values":[[5,"7"]]}]}}'
    )


def test_many_series_of_floats_and_histograms_are_all_there() -> None:
    rows, steps = 1500, 5
    is_histogram = np.random.default_rng(1).random(rows * steps) < 0.9
    nothing: Any = None
    histograms = np.where(is_histogram, objects(HISTOGRAM), nothing)
    labels = [(("row", f"{row:04d}"),) for row in range(rows)]
    times, values = np.tile(np.arange(steps) * 1000, rows), np.arange(rows * steps).astype(np.float64)
    shown = result(SeriesBlock(Axis.of(labels), np.arange(rows + 1) * steps, times, values, histograms))
    assert [one["metric"]["row"] for one in shown] == [labels[row][0][1] for row in range(rows)]
    assert [value for one in shown for _, value in one.get("values", [])] == [
        str(row) for row in np.flatnonzero(~is_histogram)
    ]
    assert [time for one in shown for time, _ in one.get("histograms", [])] == (times[is_histogram] // 1000).tolist()
    vector = result(Vector(0, tuple(labels), values[:rows], histograms[:rows]))
    assert ["histogram" in one for one in vector] == is_histogram[:rows].tolist()


def test_the_bounds_of_buckets_say_which_of_them_are_inside() -> None:
    two_sided = NativeHistogram(count=2, total=0, negative=((1, 1.0),), positive=((1, 1.0),))
    custom = NativeHistogram(schema=CUSTOM, count=3, total=9, positive=((0, 1.0), (1, 2.0)), custom_bounds=(5.0,))
    shown = result(Vector(0, (UP, DOWN), np.zeros(2), objects(two_sided, custom)))
    assert shown[0]["histogram"][1]["buckets"] == [[1, "-2", "-1", "1"], [0, "1", "2", "1"]]
    assert shown[1]["histogram"][1]["buckets"] == [[3, "-Inf", "5", "1"], [0, "5", "+Inf", "2"]]


def test_a_histogram_without_buckets_has_no_list_of_them() -> None:
    shown = result(Vector(0, (UP,), np.zeros(1), objects(NativeHistogram())))
    assert shown[0]["histogram"][1] == {"count": "0", "sum": "0"}


def test_a_large_answer_comes_in_chunks_and_is_whole() -> None:
    generator = np.random.default_rng(1)
    rows, steps = 3000, 40
    labels = [(("instance", f"host-{row}"), ("job", "x" * (row % 50 + 1))) for row in range(rows)]
    times = np.tile(np.arange(steps) * 60_123 - 7, rows)
    values = generator.random(rows * steps)
    block = SeriesBlock(Axis.of(labels), np.arange(rows + 1) * steps, times, values)
    chunks = list(render_result(Result(block)))
    shown = json.loads(b"".join(chunks))["data"]["result"]
    assert [one["metric"] for one in shown] == [dict(one) for one in labels]
    assert [float(value) for one in shown for _, value in one["values"]] == values.tolist()
    assert [round(time * 1000) for one in shown for time, _ in one["values"]] == times.tolist()
    assert all(LEAST_BYTES <= len(chunk) <= LEAST_BYTES + 2 * samples.CHUNK_BYTES for chunk in chunks[:-1])
    assert len(chunks) > 20


def test_one_long_series_comes_in_chunks_too() -> None:
    count = 50_000
    times, values = np.arange(count) * 1000, np.arange(count).astype(np.float64)
    chunks = list(render_result(Result(SeriesBlock(Axis.of([UP]), np.array([0, count]), times, values))))
    assert len(chunks) > 4
    assert json.loads(b"".join(chunks))["data"]["result"][0]["values"] == [[at, str(at)] for at in range(count)]


def test_labels_longer_than_a_chunk() -> None:
    huge = "y" * (3 * samples.CHUNK_BYTES)
    shown = result(matrix({(("a", "1"),): [(0, 1.0)], (("b", huge),): [(0, 1.0), (1, 2.0)], (("c", "1"),): [(0, 1.0)]}))
    assert [list(one["metric"]) for one in shown] == [["a"], ["b"], ["c"]]
    assert shown[1]["metric"]["b"] == huge


@pytest.mark.parametrize("step", [1, 60_000, 2**20, 2**51, 3 * 2**51])
def test_times_that_share_a_slot_of_the_table_are_not_mixed_up(step: int) -> None:
    times = np.arange(-1500, 1500) * step
    chunks = samples.chunks_of([b"", b","], np.array([0, 3000, 6000]), np.tile(times, 2), np.zeros(6000))
    shown = json.loads(b"[" + b"".join(chunks) + b"]", parse_float=str, parse_int=str)
    assert [time for time, _ in shown] == [exact_seconds(time) for time in times.tolist()] * 2


def exact_seconds(time_ms: int) -> str:
    seconds, rest = divmod(abs(time_ms), 1000)
    return ("-" if time_ms < 0 else "") + str(seconds) + (f".{rest:03d}" if rest else "")


def test_arrays_of_any_layout_are_read_with_one_compiled_form() -> None:
    values = np.arange(8.0)[::2]
    values.flags.writeable = False
    block = SeriesBlock(Axis.of([UP]), np.array([0, 4]), np.arange(8)[::2], values)
    assert [value for _, value in result(block)[0]["values"]] == ["0", "2", "4", "6"]
    assert result(matrix({UP: [(0, 1.0)]}))[0]["values"] == [[0, "1"]]


@given(st.text('az"\\/\n\t\0\x1f\x7f\u2028é日\U0001f600\ud800\udc80\udcff<&>', max_size=20))
def test_any_text_is_valid_json(text: str) -> None:
    replaced = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert json.loads(json_bytes(text)) == replaced
    assert json.loads(LabelTexts().object(((text, text),))) == {replaced: replaced}


def test_bytes_that_are_no_text_are_replaced_one_by_one() -> None:
    assert result(String(0, b"a\xff\xfeb".decode(errors="surrogateescape")))[1] == "a\ufffd\ufffdb"
