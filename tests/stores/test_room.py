"""Room in a budget for what it cannot see."""

import gc
import threading
from pathlib import Path

import pytest

from quarterdeck.stores.disk import DiskBudget, DiskFullError, Owner
from quarterdeck.stores.room import Room
from tests.stores.budgets import PLENTY, add_artifacts, add_cached, on_disk, small_budget


def room_of(budget: DiskBudget, size_bytes: int = 0) -> Room:
    room = budget.room(Owner.TEMPORARY, "of a test")
    room.take(size_bytes)
    return room


def test_what_is_taken_counts_until_it_is_given_back(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    room, other = room_of(budget, 400), room_of(budget, 100)
    room.take(200)
    assert budget.figures().temporary_bytes == 700
    budget.check_invariants()
    with pytest.raises(DiskFullError, match=r"no room for 301 B more of temporary file of a test: .* 700 B"):
        other.take(301)
    room.give_back()
    room.give_back()
    other.take(900)
    assert budget.figures().temporary_bytes == 1000
    budget.check_invariants()


def test_cached_files_yield_to_it_and_wanted_artifacts_do_not(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    add_cached(budget, "a", "b", size_bytes=300)
    add_artifacts(budget, "wanted", size_bytes=300)
    room = room_of(budget, 700)
    assert on_disk(budget) == {"wanted"}
    with pytest.raises(DiskFullError):
        room.take(1)
    with pytest.raises(DiskFullError):  # and it yields to nobody
        add_artifacts(budget, "large", size_bytes=701)
    assert budget.figures().temporary_bytes == 700


def test_of_what_is_free_on_the_disk_it_keeps_what_is_not_written_yet(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, PLENTY, free_bytes=1000)
    room = room_of(budget, 600)
    with pytest.raises(DiskFullError):
        room_of(budget, 401)
    room.size_bytes = 600  # the file system counts that itself
    room_of(budget, 1000)


@pytest.mark.parametrize("wished, got", [(400, 400), (1000, 500), (4000, 500), (601, 300), (0, 0)])
def test_it_takes_halves_of_what_is_wished(tmp_path: Path, wished: int, got: int) -> None:
    budget = small_budget(tmp_path)
    room_of(budget, 400)
    room = room_of(budget)
    assert room.take_up_to(wished) == got == room.reserved_bytes
    budget.check_invariants()


def test_with_no_room_at_all_it_takes_nothing(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    room_of(budget, 1000)
    assert room_of(budget).take_up_to(1 << 40) == 0


def test_a_finalizer_that_runs_while_the_budget_is_locked_gives_it_back(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)

    class Held:
        def __init__(self) -> None:
            self.room = room_of(budget, 1000)
            self.itself = self  # so that only the garbage collection ends it

        def __del__(self) -> None:
            self.room.give_back()

    def collect() -> None:
        with budget._lock:  # pyright: ignore[reportPrivateUsage]
            gc.collect()

    gc.disable()
    try:
        Held()
        collecting = threading.Thread(target=collect, daemon=True)
        collecting.start()
        collecting.join(10)
        assert not collecting.is_alive(), "the finalizer waits for the lock"
    finally:
        gc.enable()
    room_of(budget, 1000)
    budget.check_invariants()
