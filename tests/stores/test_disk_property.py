"""Whatever is done with a budget, by one thread or by many at once: it counts right and keeps its limits."""

import random
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quarterdeck.stores import disk
from quarterdeck.stores.disk import DiskBudget, DiskFullError, DiskLimits, GrowingFile, Owner, Pin
from tests.stores.budgets import PLENTY, add_artifacts, add_cached, on_disk, path_of, small_budget

LIMITS = DiskLimits(1000, high_watermark=0.8, low_watermark=0.5, artifact_floor_bytes=300, step_bytes=64)


class Budgeting(RuleBasedStateMachine):
    """Files come, grow, are kept, used, acknowledged, expired, removed, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.free_bytes = PLENTY
        self.budget = DiskBudget(folder, LIMITS, free_bytes=lambda: self.free_bytes)
        self.budget.on_evicted = self.forget
        self.growing: list[GrowingFile] = []
        self.kept: set[str] = set()
        self.pins: list[tuple[str, Pin]] = []
        self.made = 0

    def forget(self, owner: Owner, key: str) -> None:
        assert key not in {pinned for pinned, _ in self.pins}, "evicted in use"
        self.kept.remove(key)

    @rule(owner=st.sampled_from(Owner), expected_bytes=st.integers(0, 1100))
    def create(self, owner: Owner, expected_bytes: int) -> None:
        self.made += 1
        key = f"k{self.made}"
        with suppress(DiskFullError):
            self.growing.append(
                self.budget.create(owner, key, path_of(self.budget, key), expected_bytes=expected_bytes)
            )

    @precondition(lambda self: self.growing)
    @rule(data=st.data(), size_bytes=st.integers(0, 500))
    def write(self, data: st.DataObject, size_bytes: int) -> None:
        file = data.draw(st.sampled_from(self.growing))
        try:
            file.write(bytes(size_bytes))
        except DiskFullError:
            self.growing.remove(file)

    @precondition(lambda self: self.growing)
    @rule(data=st.data(), keep=st.booleans())
    def finish(self, data: st.DataObject, keep: bool) -> None:
        file = data.draw(st.sampled_from(self.growing))
        self.growing.remove(file)
        if keep:
            file.keep()
            self.kept.add(file.key)
        else:
            file.abandon()

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), what=st.sampled_from(("pin", "touch", "acknowledge", "expire", "remove")))
    def use(self, data: st.DataObject, what: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.kept)))
        match what:
            case "pin":
                self.pins.append((key, self.budget.pin(key)))
            case "touch":
                self.budget.touch(key)
            case "remove":
                self.budget.remove(key)
                self.kept.remove(key)
            case _:
                with suppress(ValueError):  # a cached file
                    (self.budget.acknowledge if what == "acknowledge" else self.budget.expire)(key)

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.pins.pop(data.draw(st.integers(0, len(self.pins) - 1)))[1].release()

    @rule(free_bytes=st.sampled_from((0, 100, PLENTY)))
    def somebody_else_uses_the_disk(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes

    @invariant()
    def the_books_are_right(self) -> None:
        self.budget.check_invariants()

    @invariant()
    def the_disk_has_what_is_kept_or_grows_or_is_in_use(self) -> None:
        in_use = {key for key, _ in self.pins}
        assert on_disk(self.budget) == self.kept | in_use | {f"{file.key}.parquet.part" for file in self.growing}

    def teardown(self) -> None:
        for file in self.growing:
            file.abandon()
        for _, pin in self.pins:
            pin.release()
        for key in self.kept:
            self.budget.remove(key)
        assert on_disk(self.budget) == set()
        figures = self.budget.figures()
        assert (figures.artifact_bytes, figures.cache_bytes) == (0, 0)
        self.stack.close()


TestBudgeting = Budgeting.TestCase
TestBudgeting.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


class Crowd:
    """Threads that write, use and remove files of one small budget, as fast as they can."""

    def __init__(self, budget: DiskBudget) -> None:
        self.budget = budget
        self.evictions = 0
        self.errors: list[BaseException] = []
        budget.on_evicted = self.count_eviction

    def count_eviction(self, owner: Owner, key: str) -> None:
        self.evictions += 1
        self.budget.remove(key)  # whoever is told may call back

    def work(self, number: int, rounds: int) -> None:
        chance = random.Random(number)
        try:
            for turn in range(rounds):
                self.one_file(chance, f"k{number}-{turn % 5}")
                self.budget.check_invariants()
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.errors.append(error)

    def one_file(self, chance: random.Random, key: str) -> None:
        self.budget.remove(key)
        owner = chance.choice(list(Owner))
        with suppress(DiskFullError), self.budget.create(owner, key, path_of(self.budget, key)) as file:
            for _ in range(chance.randrange(1, 5)):
                file.write(bytes(chance.randrange(1, 150)))
            if chance.random() < 0.9:
                file.keep()
        with suppress(KeyError), self.budget.pinned(key) as path:
            self.budget.check_invariants()
            assert path.exists()
            if chance.random() < 0.3:
                self.budget.remove(key)
                assert path.exists()
        if owner is Owner.ARTIFACTS and chance.random() < 0.5:
            self.budget.acknowledge(key)


def test_many_writers_at_once_never_exceed_the_limit_and_leave_nothing(tmp_path: Path) -> None:
    crowd = Crowd(DiskBudget(tmp_path, LIMITS, free_bytes=lambda: PLENTY))
    threads = [threading.Thread(target=crowd.work, args=(number, 60)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if crowd.errors:
        raise crowd.errors[0]
    assert crowd.evictions > 0
    for number in range(6):
        for turn in range(5):
            crowd.budget.remove(f"k{number}-{turn}")
    figures = crowd.budget.figures()
    assert (figures.artifact_bytes, figures.cache_bytes) == (0, 0)
    assert on_disk(crowd.budget) == set()


class Gate:
    """Deleting waits in front of it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self._unlink = disk._unlink  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self.opened.set()  # so that a test that fails does not wait

    def unlink(self, path: Path | str) -> bool:
        self.reached.set()
        assert self.opened.wait(10)
        return self._unlink(path)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(disk, "_unlink", gate.unlink)
    return gate


def wait_until_waiting(budget: DiskBudget, count: int) -> None:
    """Until that many threads wait for a deletion."""
    condition: Any = budget._gone  # pyright: ignore[reportPrivateUsage]
    deadline_s = time.monotonic() + 10
    while len(condition._waiters) < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_who_needs_the_room_of_a_file_that_is_being_deleted_waits_for_it(tmp_path: Path, gate: Gate) -> None:
    budget = small_budget(tmp_path, 200)
    evicted: list[str] = []
    budget.on_evicted = lambda owner, key: evicted.append(key)
    add_cached(budget, "a", size_bytes=150)
    add_cached(budget, "z", size_bytes=50)
    with ThreadPoolExecutor(3) as threads, gate:
        evicting = threads.submit(add_artifacts, budget, "b", size_bytes=50)
        assert gate.reached.wait(10)
        needing_room = threads.submit(add_artifacts, budget, "c", size_bytes=50)
        needing_the_name = threads.submit(add_artifacts, budget, "a", size_bytes=50)
        wait_until_waiting(budget, 2)
        assert budget.figures().cache_bytes == 200  # it counts while it is there
        budget.check_invariants()
        gate.opened.set()
        for done in (evicting, needing_room, needing_the_name):
            done.result()
    assert on_disk(budget) == {"a", "b", "c", "z"}
    assert evicted == ["a"]  # and nothing more than it
    assert budget.figures().artifact_bytes == 150


def test_nobody_waits_for_a_disk_that_deletes_slowly_but_who_needs_the_room(tmp_path: Path, gate: Gate) -> None:
    budget = small_budget(tmp_path, 300)
    add_cached(budget, "a")
    add_artifacts(budget, "b")
    with ThreadPoolExecutor(1) as threads, gate:
        removing = threads.submit(budget.remove, "a")
        assert gate.reached.wait(10)
        with budget.pinned("b"):
            budget.acknowledge("b")
            add_artifacts(budget, "c")
            assert budget.figures().artifact_bytes == 200
        gate.opened.set()
        removing.result()
    assert on_disk(budget) == {"b", "c"}
