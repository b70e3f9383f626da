"""One answer out of those of chunks: what is given when, and what is kept where."""

# pyright: reportPrivateUsage=false

import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.engine.rendering import rendered
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.model import Order, SearchSpec
from quarterdeck.search.stored_rows import NoRoomError
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from tests.search.engine.searched import IN_THIS_PROCESS, MIB, Bench, arrow, whole
from tests.small_disk import a_disk

WAYS = IN_THIS_PROCESS


def chunks_of(bench: Bench, spec: SearchSpec, count: int, lines: int = 2) -> list[list[Any]]:
    """The answers of chunks, each of one file with so many lines."""
    return [
        bench.chunk(
            spec,
            [whole(bench.write(f"{number}.ndjson", *({"id": number * lines + line} for line in range(lines))))],
        )[0]
        for number in range(count)
    ]


def gathering_of(bench: Bench, spec: SearchSpec, memory_bytes: int = MIB, disk_bytes: int = MIB) -> Gathering:
    return Gathering(spec, bench.spool, memory_bytes=memory_bytes, disk_bytes=disk_bytes, disk=bench.disk)


def given(parts: Any) -> list[str]:
    return b"".join(parts).decode().split()


def test_rows_in_no_order_are_given_as_they_come(bench: Bench) -> None:
    spec = SearchSpec("", 0, Order.NONE, "ts")
    chunks = chunks_of(bench, spec, 3)
    gathering = gathering_of(bench, spec)
    assert given(gathering.add(2, chunks[2])) == ['{"id":', "4}", '{"id":', "5}"]
    assert gathering.rows == 2
    assert given(gathering.add(0, chunks[0])) == ['{"id":', "0}", '{"id":', "1}"]
    assert not gathering.is_satisfied
    assert given(gathering.finish(CancelToken())) == []
    gathering.close()


def test_rows_in_the_order_of_files_are_given_when_all_before_them_are_there(bench: Bench) -> None:
    spec = SearchSpec("| cut id", 0, Order.INPUT, "ts")
    chunks = chunks_of(bench, spec, 5)
    gathering = gathering_of(bench, spec)
    assert given(gathering.add(1, chunks[1])) == []
    assert given(gathering.add(0, chunks[0])) == ['{"id":0}', '{"id":1}', '{"id":2}', '{"id":3}']
    assert given(gathering.add(4, chunks[4])) == []
    assert given(gathering.add(2, chunks[2])) == ['{"id":4}', '{"id":5}']
    # The fourth never comes.
    assert given(gathering.finish(CancelToken())) == ['{"id":8}', '{"id":9}']
    assert gathering.rows == 8
    gathering.close()


@pytest.mark.parametrize("order", [Order.INPUT, Order.NONE])
def test_head_is_satisfied_when_it_has_its_rows(bench: Bench, order: Order) -> None:
    spec = SearchSpec("| cut id | head 3", 0, order, "ts")
    chunks = chunks_of(bench, spec, 3)
    gathering = gathering_of(bench, spec)
    assert not gathering.is_satisfied
    assert len(given(gathering.add(0, chunks[0]))) == 2
    assert not gathering.is_satisfied
    assert given(gathering.add(1, chunks[1])) == ['{"id":2}']
    assert gathering.is_satisfied
    assert given(gathering.add(2, chunks[2])) == []
    assert given(gathering.finish(CancelToken())) == []
    assert gathering.rows == 3
    gathering.close()


def test_the_first_rows_of_the_files_are_not_those_that_come_first(bench: Bench) -> None:
    spec = SearchSpec("| cut id | head 2", 0, Order.INPUT, "ts")
    chunks = chunks_of(bench, spec, 3)
    gathering = gathering_of(bench, spec)
    assert given(gathering.add(2, chunks[2])) == []
    assert not gathering.is_satisfied
    assert given(gathering.add(0, chunks[0])) == ['{"id":0}', '{"id":1}']
    assert gathering.is_satisfied
    gathering.close()


@pytest.mark.parametrize("query", ["| head 2", "| sort id | head 2", "| head 2 | cut id", "| tail 2", "| count()"])
def test_what_depends_on_all_chunks_is_not_satisfied_early(bench: Bench, query: str) -> None:
    order = Order.TIME if query == "| head 2" else Order.NONE
    spec = SearchSpec(query, 0, order, "ts")
    gathering = gathering_of(bench, spec)
    for number, chunk in enumerate(chunks_of(bench, spec, 3)):
        assert given(gathering.add(number, chunk)) == []
    assert not gathering.is_satisfied
    assert given(gathering.finish(CancelToken()))
    gathering.close()


def test_head_of_nothing_is_satisfied_at_once(bench: Bench) -> None:
    gathering = gathering_of(bench, SearchSpec("| head 0", 0, Order.NONE, "ts"))
    assert gathering.is_satisfied
    assert given(gathering.finish(CancelToken())) == []
    gathering.close()


@pytest.mark.parametrize(
    "query, rows", [("", 0), ("| count(), sum(a), max(b)", 1), ("| count() by a", 0), ("| uniq", 0)]
)
def test_without_chunks_there_is_an_answer(bench: Bench, query: str, rows: int) -> None:
    gathering = gathering_of(bench, SearchSpec(query, 0, Order.TIME, "ts"))
    assert len(given(gathering.finish(CancelToken()))) == rows
    gathering.close()


@pytest.mark.parametrize("order", [Order.TIME, Order.INPUT])
@pytest.mark.parametrize("query", ["", "| sort -r id", "| uniq", "| sum(id), count() by id", "| tail 5000"])
def test_beyond_its_memory_it_uses_the_disk_and_leaves_nothing_there(bench: Bench, query: str, order: Order) -> None:
    lines = [{"id": i * 7919 % 4000, "ts": i * 104729 % 4000, "pad": "x" * 50} for i in range(4000)]
    chunks = [[whole(bench.write(f"{i}.ndjson", *lines[i * 500 : i * 500 + 500]))] for i in range(8)]
    arrival = [3, 1, 7, 0, 2, 6, 5, 4]
    in_memory = bench.search(query, chunks, order=order, arrival=arrival)
    spec = SearchSpec(query, 0, order, "ts")
    gathering = Gathering(spec, bench.spool, memory_bytes=64 * MIB, disk_bytes=64 * MIB, disk=bench.disk)
    gathering._spool._memory_bytes = 20_000
    parts: list[bytes] = []
    for number in arrival:
        parts += gathering.add(number, bench.chunk(spec, chunks[number])[0])
    if not gathering._plan.is_streamed:
        assert list(bench.spool.rglob("*.arrow"))
    parts += gathering.finish(CancelToken())
    gathering.close()
    assert b"".join(parts).decode().splitlines() == in_memory.lines
    assert list(bench.spool.iterdir()) == []


def test_a_sort_that_does_not_fit_into_memory_goes_to_disk(bench: Bench) -> None:
    count = 120_000
    lines = [f'{{"id":{i * 7919 % count},"pad":"{i:01000}"}}' for i in range(count)]
    chunks = [[whole(bench.write("big.ndjson", *lines))]]
    answer = bench.search("| sort id | cut id", chunks, memory_bytes=16 * MIB, disk_bytes=1024 * MIB)
    assert [row["id"] for row in answer.rows] == list(range(count))
    assert list(bench.spool.iterdir()) == []
    with pytest.raises(QuarterdeckError) as caught:
        bench.search("| sort id", chunks, memory_bytes=16 * MIB, disk_bytes=20 * MIB)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert list(bench.spool.iterdir()) == []


def test_beyond_its_disk_it_fails_and_says_what_to_do(bench: Bench) -> None:
    lines = [{"id": i, "r": str(i * 7919 % 104729) * 20} for i in range(5000)]
    chunks = [[whole(bench.write("big.ndjson", *lines))]]
    with pytest.raises(QuarterdeckError) as caught:
        bench.search("", chunks, order=Order.TIME, memory_bytes=1000, disk_bytes=1000)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert "add `| head`" in caught.value.next_step
    assert list(bench.spool.iterdir()) == []


def large_chunks(bench: Bench, spec: SearchSpec, count: int = 4) -> list[list[Any]]:
    """Of some 700 KB each, which cannot be compressed by much."""
    return [
        bench.chunk(
            spec, [whole(bench.write(f"{n}.ndjson", *({"id": i, "r": os.urandom(300).hex()} for i in range(1000))))]
        )[0]
        for n in range(count)
    ]


def test_the_budget_counts_what_is_put_aside_until_it_is_given_out(bench: Bench) -> None:
    spec = SearchSpec("", 0, Order.INPUT, "ts")
    chunks = large_chunks(bench, spec)
    gathering = gathering_of(bench, spec, memory_bytes=1000, disk_bytes=64 * MIB)
    for number in (3, 2, 1):
        list(gathering.add(number, chunks[number]))
    held_bytes = sum(path.stat().st_size for path in bench.spool.rglob("*.arrow"))
    assert bench.disk.figures().temporary_bytes == held_bytes > MIB
    bench.disk.check_invariants()
    list(gathering.add(0, chunks[0]))
    assert bench.disk.figures().temporary_bytes == 0
    gathering.close()
    bench.disk.check_invariants()


@pytest.mark.parametrize("query", ["", "| sort id"])
def test_a_search_that_ends_early_gives_all_of_it_back(bench: Bench, query: str) -> None:
    spec = SearchSpec(query, 0, Order.INPUT, "ts")
    gathering = gathering_of(bench, spec, memory_bytes=1000, disk_bytes=64 * MIB)
    for number, chunk in enumerate(large_chunks(bench, spec, 3), start=1):
        list(gathering.add(number, chunk))
    next(gathering.finish(CancelToken()))
    assert bench.disk.figures().temporary_bytes > MIB
    gathering.close()
    assert bench.disk.figures().temporary_bytes == 0
    assert list(bench.spool.iterdir()) == []


def gathered(folder: Path, disk: DiskBudget, query: str, chunks: list[list[Any]], memory_bytes: int) -> list[str]:
    spec = SearchSpec(query, 0, Order.TIME, "ts")
    gathering = Gathering(spec, folder, memory_bytes=memory_bytes, disk_bytes=1024 * MIB, disk=disk)
    try:
        for number, chunk in enumerate(chunks):
            list(gathering.add(number, chunk))
        return given(gathering.finish(CancelToken()))
    finally:
        gathering.close()
        assert disk.figures().temporary_bytes == 0
        disk.check_invariants()


def test_a_spent_budget_and_a_full_disk_are_one_error_that_says_what_to_do(bench: Bench, tmp_path: Path) -> None:
    chunks = large_chunks(bench, SearchSpec("", 0, Order.TIME, "ts"))
    errors: list[NoRoomError] = []
    with a_disk("size=1m", tmp_path) as small:
        for folder, limit_bytes in ((tmp_path / "spent", MIB), (small, 1 << 40)):
            with pytest.raises(NoRoomError) as raised:
                gathered(folder, DiskBudget(folder, DiskLimits(limit_bytes)), "", chunks, MIB)
            errors.append(raised.value)
    assert len({(error.what, error.next_step) for error in errors}) == 1
    assert "of 1.0 MiB for" in errors[0].why
    assert "the file system has" in errors[1].why


def test_sorting_on_disk_gets_what_the_budget_has_left_and_is_refused_beyond_it(bench: Bench, tmp_path: Path) -> None:
    lines = [f'{{"id":{i * 7919 % 120_000},"pad":"{os.urandom(400).hex()}"}}' for i in range(120_000)]
    spec = SearchSpec("| sort id", 0, Order.TIME, "ts")
    chunk = bench.chunk(spec, [whole(bench.write("big.ndjson", *lines))])[0]
    sizes = {"roomy": 1024 * MIB, "tight": 100 * MIB, "spent": 1}
    disks = {name: DiskBudget(tmp_path / name, DiskLimits(size)) for name, size in sizes.items()}
    assert len(gathered(tmp_path, disks["roomy"], spec.query, [chunk], 128 * MIB)) == 120_000
    for name in ("tight", "spent"):
        with pytest.raises(NoRoomError, match="bytes of disk were left to put it together: Out of Memory"):
            gathered(tmp_path, disks[name], spec.query, [chunk], 128 * MIB)


def test_a_folder_that_cannot_be_written_is_told(bench: Bench) -> None:
    bench.spool.write_text("a file where the folder should be")
    spec = SearchSpec("", 0, Order.TIME, "ts")
    gathering = Gathering(spec, bench.spool, memory_bytes=1, disk_bytes=MIB, disk=bench.disk)
    with pytest.raises((QuarterdeckError, OSError)):
        list(gathering.add(0, chunks_of(bench, spec, 1)[0]))
    gathering.close()


def test_a_search_that_is_none_is_refused(tmp_path: Path) -> None:
    disk = DiskBudget(tmp_path, DiskLimits(MIB))
    with pytest.raises(SearchSyntaxError):
        Gathering(SearchSpec("level= | count()", 0), tmp_path, memory_bytes=MIB, disk_bytes=MIB, disk=disk)


def test_lines_are_given_in_pieces_that_are_whole_lines() -> None:
    lines = [f'{{"id":{number},"pad":"{"x" * (number % 300)}"}}' for number in range(3000)]
    lines.append('{"long":"' + "y" * 500_000 + '"}')
    pieces = list(rendered(arrow.array(lines)))
    assert b"".join(pieces).decode().splitlines() == lines
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert max(map(len, pieces[:-1])) <= 128 * 1024
    assert len(pieces) > 3
    assert list(rendered(arrow.array([], arrow.string()))) == []
