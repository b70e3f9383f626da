"""Samples in any order become pieces in the order of segments, each sample in one of them."""

import itertools
import struct
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from quarterdeck.metrics.importing import assembly as module
from quarterdeck.metrics.importing.assembly import Assembly, Piece
from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.model import MOST_SHARDS
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, digest, get
from tests.each_seed import each_seed
from tests.metrics.importing.lakes import Row, batch
from tests.metrics.segments.stored import told
from tests.metrics.transfer.blocks import Blocks

DAY_MS = 86_400_000


def series(number: int) -> Labels:
    first = (("Zone", "x"),) if number % 3 == 0 else ()
    name = ((METRIC_NAME, f"m{number % 4}"),) if number % 5 else ()
    return (*first, *name, ("i", str(number)))


def taken(assembly: Assembly, *batches: SampleBatch) -> list[Piece]:
    found: list[Piece] = []
    for one in batches:
        assembly.add(one)
        if assembly.is_full:
            found += assembly.take()
    return [*found, *assembly.take()]


def bits(value: float) -> bytes:
    return struct.pack("d", value)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEGMENT_ROWS", 10)


@pytest.mark.usefixtures("small_segments")
@each_seed(range(25))
def test_the_last_sample_of_each_series_and_time_is_in_one_piece_of_its_shard(seed: int) -> None:
    random = Random(seed)
    days = random.choice((1, 3, 2_000))
    times = [random.randrange(-DAY_MS, days * DAY_MS) for _ in range(random.randint(1, 60))]
    rows: list[Row] = [
        (series(random.randrange(12)), random.choice(times), random.random()) for _ in range(random.randint(1, 300))
    ]
    if random.random() < 0.3:
        rows.sort(key=lambda row: (row[0], row[1]))
    cuts = sorted(random.randrange(len(rows)) for _ in range(3))
    batches = [batch(rows[low:high]) for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    assembly = Assembly(random.choice((None, 1, 2, 8)))
    pieces = taken(assembly, *batches)
    wanted = {(labels, time): bits(value) for labels, time, value in rows}
    found = {
        (labels, time): value for piece in pieces for labels, some in told(piece.block).items() for time, value in some
    }
    assert found == wanted
    assert sum(len(piece.block.timestamps) for piece in pieces) == len(wanted)
    assert assembly.duplicates == len(rows) - len(wanted)
    assert assembly.series == len({labels for labels, _, _ in rows})
    for piece in pieces:
        labels = piece.block.axis.labels
        assert {digest(one) % piece.shard_count for one in labels} == {piece.shard}
        assert list(labels) == sorted(labels, key=lambda one: (get(one, METRIC_NAME), one))
        offsets = piece.block.offsets.tolist()
        for low, high in itertools.pairwise(offsets):
            assert (np.diff(piece.block.timestamps[low:high]) > 0).all()


@pytest.mark.usefixtures("small_segments")
def test_pieces_do_not_overlap_in_time_within_a_shard() -> None:
    rows: list[Row] = [(series(i % 7), DAY_MS * day + i, 1.0) for day in range(30) for i in range(40)]
    spans: dict[int, list[tuple[int, int]]] = {}
    for piece in taken(Assembly(2), batch(rows)):
        times = piece.block.timestamps
        spans.setdefault(piece.shard, []).append((int(times.min()), int(times.max())))
    for some in spans.values():
        some.sort()
        assert len(some) > 10
        assert all(before[1] < after[0] for before, after in itertools.pairwise(some))


@pytest.mark.parametrize("step_ms", [1, 60_000, 300 * DAY_MS])
def test_few_samples_are_one_piece_over_midnight_and_over_years(step_ms: int) -> None:
    rows: list[Row] = [(series(i % 9), 20_000 * DAY_MS - 5 + i * step_ms, 1.0) for i in range(50)]
    (piece,) = taken(Assembly(), batch(rows))
    assert (piece.shard, piece.shard_count) == (0, 1)


def test_the_first_and_the_last_time_there_can_be_are_fine() -> None:
    rows: list[Row] = [(series(1), -9_200_000_000_000_000, 1.0), (series(1), 9_200_000_000_000_000, 2.0)]
    (piece,) = taken(Assembly(), batch(rows))
    assert piece.block.timestamps.tolist() == [time for _, time, _ in rows]


@pytest.mark.usefixtures("small_segments")
def test_no_piece_is_much_smaller_than_a_segment_should_be() -> None:
    for count in (1, 10, 100, 1_000, 3_000):
        rows: list[Row] = [(series(i % 200), i * 1_000, 1.0) for i in range(count)]
        pieces = taken(Assembly(), batch(rows))
        assert len(pieces) <= max(1, count // 10)
        assert pieces[0].shard_count <= MOST_SHARDS


@pytest.mark.usefixtures("small_segments")
def test_each_part_is_taken_when_it_is_full_and_then_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHERED_SAMPLES", 20)
    assembly = Assembly(1)
    parts = [batch([(series(at), at * 10 + i, 1.0) for i in range(10)]) for at in range(5)]
    sizes: list[int] = []
    for part in parts:
        assembly.add(part)
        if assembly.is_full:
            sizes.append(sum(len(piece.block.timestamps) for piece in assembly.take()))
            assert assembly.samples == 0
    sizes.append(sum(len(piece.block.timestamps) for piece in assembly.take()))
    assert sizes == [20, 20, 10]
    assert assembly.series == 5
    assert list(assembly.take()) == []


def test_histograms_go_with_their_samples_and_a_float_may_replace_one() -> None:
    one, other = Blocks(1).histogram(), Blocks(2).histogram()
    floats = batch([(series(1), 1, 1.0), (series(2), 5, 2.0), (series(2), 6, 2.0)])
    mixed = batch([(series(1), 2, 0.0), (series(2), 5, 0.0), (series(1), 1, 3.0)], [one, other, None])
    (piece,) = taken(Assembly(), floats, mixed)
    found = told(piece.block)
    assert [time for time, _ in found[series(1)]] == [1, 2]
    assert found[series(1)][0] == (1, bits(3.0))
    assert piece.block.histograms is not None
    assert [one is None for one in piece.block.histograms] == [True, False, False, True]


def test_batches_without_samples_make_nothing() -> None:
    empty = SampleBatch((series(1),), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0))
    assert taken(Assembly(), empty) == []
    assert len(taken(Assembly(), empty, batch([(series(1), 1, 1.0)]), empty)) == 1


@pytest.mark.parametrize("shard_count", [0, -1, 3, 12])
def test_a_number_of_shards_that_works_cannot_divide_is_refused(shard_count: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Assembly(shard_count)


@pytest.mark.usefixtures("small_segments")
def test_each_sample_keeps_its_start_timestamp_and_pieces_without_any_have_none() -> None:
    """Sorted, cut by day and by shard; of samples of one time the last stays, with its own start or with none."""
    random = Random(3)
    rows: list[Row] = [
        (series(random.randrange(12)), DAY_MS * random.randrange(5) + random.randrange(9), 1.0) for _ in range(400)
    ]
    starts = [time - 7 if time < 3 * DAY_MS and random.random() < 0.5 else 0 for _, time, _ in rows]
    first, second = batch(rows[:300]), batch(rows[300:])
    pieces = taken(Assembly(2), replace(first, starts=np.array(starts[:300], np.int64)), second)
    wanted = {(labels, time): start for (labels, time, _), start in zip(rows[:300], starts[:300], strict=True)}
    wanted |= {(labels, time): 0 for labels, time, _ in rows[300:]}
    found: dict[tuple[Labels, int], int] = {}
    without = 0
    for piece in pieces:
        block = piece.block
        some = np.zeros(len(block.timestamps), np.int64) if block.starts is None else block.starts
        without += block.starts is None
        assert block.starts is None or block.starts.any()
        for labels, (low, high) in zip(block.axis.labels, itertools.pairwise(block.offsets.tolist()), strict=True):
            columns = (block.timestamps[low:high].tolist(), some[low:high].tolist())
            found |= {(labels, time): start for time, start in zip(*columns, strict=True)}
    assert found == wanted
    assert without
