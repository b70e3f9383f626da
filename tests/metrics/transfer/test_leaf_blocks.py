"""What goes into an artifact comes out of it."""

import gc
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.arrow_arrays import lists
from quarterdeck.metrics.promql.blocks import STALE_BITS, Axis, Grid, Objects, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader, LeafWriter
from tests.metrics.promql.samples import labels
from tests.metrics.transfer.artifacts import Ferry
from tests.metrics.transfer.blocks import QUERIES, Blocks, leaf
from tests.metrics.transfer.likeness import told

pa: Any = _pyarrow

SHAPES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=5)


class Kept:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.schema: Any = None
        self.batches: list[Any] = []

    def open(self, schema: Any, ts_column: str | None) -> None:
        assert (self.schema, ts_column) == (None, "timestamp")
        self.schema = schema

    def write(self, batch: Any) -> None:
        self.batches.append(batch)


def written(query: str, blocks: list[LeafBlock]) -> Kept:
    kept = Kept()
    writer = LeafWriter(leaf(query), kept)
    for block in blocks:
        writer.write(block)
    writer.finish(Notes(), {})
    return kept


def vector(axis: Axis, steps: int = 2, start_ms: int = 0) -> LeafBlock:
    values = np.arange(len(axis) * steps, dtype=np.float64).reshape(len(axis), steps)
    return LeafBlock(Grid(start_ms, 1000, steps), VectorBlock(axis, values, np.ones(values.shape, np.bool_)))


def with_histogram(block: LeafBlock) -> LeafBlock:
    assert isinstance(block.values, VectorBlock)
    histograms: Objects = np.full(block.values.values.shape, None, object)
    histograms[0, 0] = NativeHistogram(count=1.0)
    return replace(block, values=replace(block.values, histograms=histograms))


@pytest.fixture
def ferry(tmp_path: Path) -> Ferry:
    return Ferry(tmp_path)


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), shapes=SHAPES)
def test_blocks_of_every_kind_come_back_bit_by_bit(
    ferry: Ferry, query: str, seed: int, shapes: list[tuple[int, int]]
) -> None:
    blocks = Blocks(seed).series_of(leaf(query), shapes)
    came = list(ferry.carry(leaf(query), blocks))
    assert [told(block) for block in came] == [told(block) for block in blocks]


@pytest.mark.parametrize("query", ["up", "sum(up)", "up[5m]"])
def test_rows_may_come_in_batches_cut_anywhere(query: str) -> None:
    blocks = Blocks(7).series_of(leaf(query), [(5, 3), (5, 2), (0, 2), (0, 1), (5, 1), (3, 0)])
    kept = written(query, blocks)
    table = pa.Table.from_batches(kept.batches).combine_chunks()
    for rows in (1, 2, 3, 4, 7, 100):
        came = list(LeafReader(leaf(query), iter(table.to_batches(max_chunksize=rows))))
        assert [told(block) for block in came] == [told(block) for block in blocks]


def test_large_answers_come_back_from_files(tmp_path: Path) -> None:
    blocks = Blocks(3)
    axis = blocks.axis(500)
    shape = (500, 1500)
    sent = [
        LeafBlock(Grid(start_ms, 1000, 1500), VectorBlock(axis, blocks.floats(shape), blocks.flags(shape)))
        for start_ms in (0, 1_500_000, 3_000_000)
    ]
    fetched = Ferry(tmp_path, memory_limit_bytes=0).write(leaf("up", 1500), sent, Notes(), {})
    assert fetched.path is not None
    assert len(list(fetched.read_batches())) > 2
    came = list(LeafReader(leaf("up", 1500), fetched.read_batches()))
    assert [told(block) for block in came] == [told(block) for block in sent]


def test_the_staleness_marker_stays_what_it_is(ferry: Ferry) -> None:
    block = vector(Axis.of([labels("m")]))
    assert isinstance(block.values, VectorBlock)
    marked = replace(block, values=replace(block.values, values=np.array([[STALE_BITS] * 2], np.uint64).view(float)))
    (came,) = ferry.carry(leaf("up"), [marked])
    assert isinstance(came.values, VectorBlock)
    assert came.values.values.view(np.uint64).tolist() == [[STALE_BITS] * 2]


def test_blocks_with_the_same_series_have_one_axis_and_labels_are_written_once(ferry: Ferry) -> None:
    axis, other = Axis.of([labels("a"), labels("b")]), Axis.of([labels("c")])
    like_the_other = Axis.of([labels("c")])
    blocks = [vector(one, start_ms=2000 * at) for at, one in enumerate((axis, axis, other, like_the_other, axis))]
    one, two, three, four, five = (block.values.axis for block in ferry.carry(leaf("up"), blocks))
    assert one is two
    assert three is four
    assert five is not three
    assert five.labels == axis.labels
    table = pa.Table.from_batches(written("up", blocks).batches)
    assert [text is not None for text in table["labels"].to_pylist()] == [1, 1, 0, 0, 1, 0, 1, 1, 0]


def test_series_that_differ_only_in_what_becomes_of_their_names_are_others(ferry: Ferry) -> None:
    blocks = [vector(Axis.of([labels("a")], nameless), start_ms=at) for at, nameless in ((0, False), (2000, True))]
    one, two = (block.values.axis for block in ferry.carry(leaf("up"), blocks))
    assert (one.nameless.tolist(), two.nameless.tolist()) == ([False], [True])


def test_parts_of_larger_arrays_are_written_as_they_are_seen(ferry: Ferry) -> None:
    for query in QUERIES:
        (block,) = Blocks(5).series_of(leaf(query), [(4, 6)])
        if isinstance(block.values, SeriesBlock):
            continue
        cut = LeafBlock(block.grid.cut(2, 5), block.values.cut(2, 5))
        (came,) = ferry.carry(leaf(query), [cut])
        assert told(came) == told(cut)


def test_samples_may_begin_anywhere_in_their_arrays(ferry: Ferry) -> None:
    for seed in range(5):
        (block,) = Blocks(seed).series_of(leaf("up[5m]"), [(6, 1)])
        part: Any = block.values
        part = replace(part, axis=part.axis.take(np.arange(2, 5)), offsets=part.offsets[2:6])
        (came,) = ferry.carry(leaf("up[5m]"), [LeafBlock(block.grid, part)])
        got: Any = came.values
        place = slice(part.offsets[0], part.offsets[-1])
        assert got.timestamps.tolist() == part.timestamps[place].tolist()
        assert got.offsets.tolist() == (part.offsets - part.offsets[0]).tolist()


def test_without_histograms_a_small_answer_has_no_column_for_them() -> None:
    axis = Axis.of([labels("a")])
    plain = [vector(axis, start_ms=at) for at in (0, 2000)]
    assert "histograms" not in written("up", plain).schema.names
    assert "histograms" in written("up", [plain[0], with_histogram(plain[1])]).schema.names


def test_in_a_large_answer_the_last_block_may_be_the_first_with_histograms(ferry: Ferry) -> None:
    axis = Axis.of([labels(f"m i={i}") for i in range(100)])
    blocks = [vector(axis, 500, start_ms=500_000 * at) for at in range(3)]
    blocks[2] = with_histogram(blocks[2])
    came = list(ferry.carry(leaf("up", 1500), blocks))
    assert [told(block) for block in came] == [told(block) for block in blocks]
    assert [block.values.histograms is None for block in came] == [True, True, False]


def test_a_large_answer_is_handed_on_block_by_block() -> None:
    axis = Axis.of([labels(f"m i={i}") for i in range(100)])
    kept = Kept()
    writer = LeafWriter(leaf("up"), kept)
    for at in range(4):
        writer.write(vector(axis, 500, start_ms=500_000 * at))
    assert len(kept.batches) == 4


def test_more_elements_than_a_batch_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match="too many for one batch"):
        lists(np.array([0, 2**31]), pa.nulls(0, pa.float64()))


def test_what_cannot_have_histograms_has_no_column_for_them() -> None:
    blocks = Blocks(1).series_of(leaf("max(up)"), [(10, 5000)] * 2)
    assert "histograms" not in written("max(up)", blocks).schema.names


def test_an_answer_of_nothing_has_its_notes(ferry: Ferry) -> None:
    notes = Notes()
    notes.warn("odd", Span(3, 4))
    for query in QUERIES:
        reader = ferry.carry(leaf(query), [], notes, {"series": 0})
        assert list(reader) == []
        assert list(reader.notes) == list(notes)
        assert reader.report == {"series": 0}


def test_notes_and_report_are_there_when_all_is_read(ferry: Ferry) -> None:
    notes = Notes()
    notes.inform("look", Span(0, 1))
    axis = Axis.of([labels("a")])
    reader = ferry.carry(leaf("up"), [vector(axis), vector(axis, start_ms=2000)], notes, {"s": 0.5})
    next(reader)
    with pytest.raises(RuntimeError, match="drain"):
        _ = reader.notes
    with pytest.raises(RuntimeError, match="drain"):
        _ = reader.report
    reader.drain()
    assert (list(reader.notes), reader.report) == (list(notes), {"s": 0.5})


def test_the_artifact_tells_the_times_of_its_blocks(ferry: Ferry) -> None:
    axis = Axis.of([labels("a")])
    ferry.carry(leaf("up"), [vector(axis, start_ms=5000), vector(axis, start_ms=7000)])
    assert ferry.last is not None
    assert (ferry.last.row_count, ferry.last.min_ts, ferry.last.max_ts) == (3, 5000, 7000)


def test_an_answer_that_breaks_off_is_refused() -> None:
    kept = written("up", [vector(Axis.of([labels("a")]))])
    for batches in ([], kept.batches[:-1]):
        with pytest.raises(QuarterdeckError, match="ends before its notes") as caught:
            LeafReader(leaf("up"), iter(batches)).drain()
        assert caught.value.code is ErrorCode.PROTOCOL


def test_the_answer_to_another_leaf_is_refused() -> None:
    kept = written("up", [vector(Axis.of([labels("a")]))])
    with pytest.raises(QuarterdeckError, match="its columns are not those of the leaf"):
        LeafReader(leaf("up[5m]"), iter(kept.batches)).drain()


def altered(name: str, value: object) -> list[Any]:
    """A block and its notes, with something else in one column of the block."""
    batches = written("up", [vector(Axis.of([labels("a")]))]).batches
    first = batches[0]
    at = first.schema.get_field_index(name)
    return [first.set_column(at, first.schema.field(at), pa.array([value], first.schema.field(at).type)), *batches[1:]]


@pytest.mark.parametrize(
    "name, value, why",
    [
        ("kind", "samples", "a block is samples and not vector"),
        ("kind", None, "a block is None"),
        ("steps", 101, "it has 101 steps"),
        ("steps", -1, "it has -1 steps"),
        ("steps", None, "it has None steps"),
        ("steps", 2**62, "steps of 1000 ms"),
        ("steps", 3, "cannot reshape"),
        ("step_ms", -1, "of -1 ms"),
        ("timestamp", None, "from None on"),
        ("labels", "[1]", "it makes no sense"),
        ("labels", '{"a":1}', "labels that are none"),
        ("labels", '{"a":["b"]}', "labels that are none"),
        ("labels", "{", "it makes no sense"),
        ("labels", "[" * 100_000, "it makes no sense"),
        ("labels", None, "it makes no sense"),
        ("nameless", None, "labels that are none"),
        ("values", None, "cannot reshape"),
        ("values", [1.0] * 50, "cannot reshape"),
    ],
)
def test_a_block_that_cannot_be_is_an_error_of_the_protocol(name: str, value: object, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as raised:
        LeafReader(leaf("up"), iter(altered(name, value))).drain()
    assert raised.value.code is ErrorCode.PROTOCOL


@pytest.mark.parametrize("notes", ["{}", "[]", "1", '{"notes":[{}],"report":{}}', '{"notes":[],"report":[]}', "["])
def test_notes_that_are_none_are_an_error_of_the_protocol(notes: str) -> None:
    batches = written("up", []).batches
    last = batches[-1]
    batches[-1] = last.set_column(last.num_columns - 1, "notes", pa.array([notes]))
    with pytest.raises(QuarterdeckError, match="it makes no sense") as raised:
        LeafReader(leaf("up"), iter(batches)).drain()
    assert raised.value.code is ErrorCode.PROTOCOL


def test_blocks_are_handed_out_before_the_last_batch_is_read() -> None:
    axis = Axis.of([labels("a")])
    kept = written("up", [vector(axis, start_ms=2000 * at) for at in range(5)])
    taken = itertools.count()

    def batches() -> Iterator[Any]:
        for batch in kept.batches:
            next(taken)
            yield batch

    next(LeafReader(leaf("up"), batches()))
    assert next(taken) == 2


def test_a_reader_that_is_let_go_of_half_way_holds_nothing() -> None:
    axis = Axis.of([labels("a")])
    kept = written("up", [vector(axis, start_ms=2000 * at) for at in range(5)])
    is_held = True

    def batches() -> Iterator[Any]:
        nonlocal is_held
        try:
            yield from kept.batches
        finally:
            is_held = False

    gc.disable()
    try:
        reader = LeafReader(leaf("up"), batches())
        next(reader)
        del reader
        assert not is_held, "without the garbage collector"
    finally:
        gc.enable()


def test_other_tools_can_read_an_answer(ferry: Ferry, tmp_path: Path) -> None:
    block = with_histogram(vector(Axis.of([labels("m job=ä"), labels("n")])))
    file = tmp_path / "answer.parquet"
    file.write_bytes(ferry.write(leaf("up"), [block], Notes(), {"s": 1}).data or b"")
    with duckdb.connect() as connection:
        found = connection.sql(
            "select kind, series, json_extract_string(labels, 'job'), values, histograms[1].count, notes"
            f" from '{file}' order by timestamp nulls last, series"
        ).fetchall()
    assert found[:2] == [
        ("vector", 0, "ä", [None, 1.0], 1.0, None),
        ("vector", 1, None, [2.0, 3.0], None, None),
    ]
    assert json.loads(found[2][-1]) == {"notes": [], "report": {"s": 1}}
