"""Rows of an answer: in memory up to a limit, then in a file that nobody sees."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.row_payloads import RowPayloads, RowsError, checked_rows
from quarterdeck.search.stored_rows import NoRoomError, RowLimits, StoredRows, disk_bytes_of, memory_bytes_of
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from tests.small_disk import a_disk

arrow: Any = _pyarrow


def batch(number: int) -> Any:
    """Of some 4 KB that cannot be compressed."""
    return arrow.record_batch({"v": [number] * 100, "w": [os.urandom(40) for _ in range(100)]})


def payload(number: int) -> bytes:
    (made,) = RowPayloads().of([batch(number)])
    return made


def check(sent: bytes) -> None:
    checked_rows(sent, batch(0).schema)


def stored(limits: RowLimits, count: int, look: Callable[[bytes], None] | None = None) -> StoredRows:
    rows = StoredRows(limits, look)

    async def fill() -> None:
        for number in range(count):
            await rows.add(payload(number))

    asyncio.run(fill())
    return rows


def numbers(rows: StoredRows) -> list[int]:
    return [each.column("v")[0].as_py() for each in rows]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("memory_bytes", [0, 1, 5000, 20_000, 2**30])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_all_rows_come_back_in_their_order_and_again(tmp_path: Path, memory_bytes: int, count: int) -> None:
    rows = stored(RowLimits(tmp_path, memory_bytes), count)
    assert numbers(rows) == numbers(rows) == list(range(count))
    assert rows.memory_bytes <= memory_bytes
    assert memory_bytes_of(rows) == rows.memory_bytes
    assert disk_bytes_of(rows) == rows.disk_bytes
    assert list(tmp_path.iterdir()) == [], "the file has no name"


def test_little_is_not_written_at_all(tmp_path: Path) -> None:
    rows = stored(RowLimits(tmp_path / "not there"), 50)
    assert rows.disk_bytes == 0
    assert rows.memory_bytes > 0


def test_the_file_goes_with_the_rows(tmp_path: Path) -> None:
    gc.collect()
    before = open_files()
    rows = stored(RowLimits(tmp_path, 0), 3)
    assert open_files() == before + 1
    del rows
    gc.collect()
    assert open_files() == before


def test_more_than_may_be_on_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuarterdeckError) as raised:
        stored(RowLimits(tmp_path, 5000, disk_bytes=20_000), 20)
    assert raised.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert "20,000 bytes of disk" in raised.value.why
    assert not raised.value.retryable


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(QuarterdeckError, match="could not be written"):
        stored(RowLimits(tmp_path / "not there", 0), 1)


def test_the_budget_counts_what_is_on_disk_until_the_rows_go(tmp_path: Path) -> None:
    disk = DiskBudget(tmp_path, DiskLimits(2**20))
    rows = stored(RowLimits(tmp_path, 10_000, disk=disk), 20)
    assert disk.figures().temporary_bytes == rows.disk_bytes > 0
    disk.check_invariants()
    del rows
    gc.collect()
    assert disk.figures().temporary_bytes == 0
    disk.check_invariants()


def test_little_takes_no_room_in_the_budget(tmp_path: Path) -> None:
    disk = DiskBudget(tmp_path, DiskLimits(1))
    assert numbers(stored(RowLimits(tmp_path, disk=disk), 50)) == list(range(50))


def refusal(limits: RowLimits) -> NoRoomError:
    with pytest.raises(NoRoomError) as raised:
        stored(limits, 400)
    return raised.value


def test_a_spent_budget_and_a_full_disk_are_one_error(tmp_path: Path) -> None:
    limits = DiskLimits(2**20)
    with a_disk("size=1m", tmp_path) as small:
        spent = refusal(RowLimits(tmp_path, 10_000, disk=DiskBudget(tmp_path / "a", limits)))
        full = refusal(RowLimits(small, 10_000))
        full_within_budget = refusal(RowLimits(small, 10_000, disk=DiskBudget(small, DiskLimits(2**30))))
    assert {(each.code, each.what, each.next_step) for each in (spent, full, full_within_budget)} == {
        (ErrorCode.RESOURCE_EXHAUSTED, "there is no room for what the search found", spent.next_step)
    }
    assert "of 1.0 MiB for" in spent.why
    assert "No space left" in full.why
    assert "the file system has" in full_within_budget.why


@pytest.mark.parametrize("memory_bytes", [0, 2**30])
def test_what_are_no_rows_is_noticed_when_it_comes(tmp_path: Path, memory_bytes: int) -> None:
    rows = StoredRows(RowLimits(tmp_path, memory_bytes), check)
    with pytest.raises(RowsError):
        asyncio.run(rows.add(payload(1)[:-50]))


def test_what_takes_long_is_done_in_a_thread(tmp_path: Path) -> None:
    threads: list[bool] = []

    def seen(sent: bytes) -> None:
        threads.append(threading.current_thread() is not threading.main_thread())
        check(sent)

    stored(RowLimits(tmp_path, 10_000), 3, seen)
    assert threads == [False, False, True]


def test_a_file_that_does_not_hold_what_was_written_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stored(RowLimits(tmp_path, 0), 3)
    read = os.pread

    def damaged(descriptor: int, length: int, place: int) -> bytes:
        found = read(descriptor, length, place)
        return found[:500] + bytes([found[500] ^ 1]) + found[501:]

    monkeypatch.setattr(os, "pread", damaged)
    with pytest.raises(QuarterdeckError, match="does not hold what was written"):
        numbers(rows)


def test_batches_in_memory_take_what_they_take() -> None:
    batches = [batch(1), batch(2)]
    assert memory_bytes_of(batches) == sum(each.nbytes for each in batches)
    assert disk_bytes_of(batches) == 0
