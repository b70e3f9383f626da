"""Who goes when a process has not enough memory for all that runs in it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.crew.process.memory_budget import FREE_BYTES, HEAVY_BYTES, Account, MemoryBudget, MemoryShortError
from quarterdeck.crew.process.memory_watch import MemoryWatch, resident_bytes

MIB = 1 << 20
GIB = 1 << 30


class Scene:
    """A budget, and who was told to end."""

    def __init__(self, limit_bytes: int = 200 * MIB) -> None:
        self.budget = MemoryBudget(limit_bytes)
        self.told: list[str] = []

    def open(self, owner: str, size_bytes: int = 0, what: str = "up") -> Account:
        account = self.budget.open(owner, what, lambda error: self.told.append(f"{owner}: {error}"))
        if size_bytes:
            account.draw(size_bytes)
        return account


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    accounts = list(scene.budget._accounts)  # pyright: ignore[reportPrivateUsage]
    for account in accounts:
        account.close()
    assert scene.budget.used_bytes == 0
    assert scene.budget.is_idle


def test_who_asks_for_the_most_is_refused_by_name_and_the_others_go_on(scene: Scene) -> None:
    small, huge = scene.open("query a", 20 * MIB), scene.open("query b", 100 * MIB, "sum(\n   huge)")
    with pytest.raises(MemoryShortError) as caught:
        huge.draw(190 * MIB)
    error = caught.value
    assert error.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not error.retryable
    assert str(error).startswith("query b (sum( huge)) was ended: it needs 190 MiB, the most of all, and all that runs")
    assert "needs 210 MiB together, of 200 MiB that memory_bytes leaves for it; ask for fewer" in str(error)
    assert str(error).endswith("or raise memory_bytes")
    assert scene.told == []
    assert small.draw(150 * MIB) == 150 * MIB  # what was refused counts no longer
    with pytest.raises(MemoryShortError, match="query b"):
        huge.draw(2 * MIB)
    assert scene.budget.ended == 1


def test_the_largest_is_ended_by_name_so_that_a_small_one_may_go_on(scene: Scene) -> None:
    huge, small = scene.open("query huge", 190 * MIB), scene.open("query small")
    assert small.draw(20 * MIB) == 20 * MIB
    assert len(scene.told) == 1
    assert scene.told[0].startswith("query huge: query huge (up) was ended: it has 190 MiB, the most of all, and")
    assert scene.budget.ending_bytes == 190 * MIB
    with pytest.raises(MemoryShortError, match="query huge"):
        huge.draw(191 * MIB)
    huge.close()
    assert scene.budget.ending_bytes == 0
    assert scene.budget.used_bytes == 20 * MIB


def test_what_is_about_to_end_costs_no_second_one(scene: Scene) -> None:
    scene.open("largest", 120 * MIB)
    scene.open("innocent", 60 * MIB)
    small = scene.open("small", 10 * MIB)
    for size_bytes in range(20 * MIB, 60 * MIB, 10 * MIB):
        small.draw(size_bytes)
    assert [one.partition(":")[0] for one in scene.told] == ["largest"]


def test_the_parts_of_one_query_are_counted_together_and_end_together(scene: Scene) -> None:
    parts = [scene.open("query of four", 40 * MIB) for _ in range(4)]
    single = scene.open("query of one", 35 * MIB)
    single.draw(60 * MIB)
    assert len(scene.told) == 4
    assert all(part.ended is not None for part in parts)
    assert scene.budget.ended == 1


def test_one_part_that_is_refused_ends_the_other_parts(scene: Scene) -> None:
    parts = [scene.open("query", 60 * MIB) for _ in range(3)]
    with pytest.raises(MemoryShortError):
        parts[0].draw(100 * MIB)
    assert len(scene.told) == 2


def test_what_is_given_back_is_there_for_others(scene: Scene) -> None:
    one, other = scene.open("one", 150 * MIB), scene.open("other")
    assert one.give_back(10 * MIB + 1) == 11 * MIB
    assert one.give_back(100 * MIB) == 11 * MIB  # that is no way to get more
    assert other.draw(180 * MIB) == 180 * MIB
    assert scene.told == []
    assert one.give_back(0) == FREE_BYTES


def test_a_long_text_is_cut_short(scene: Scene) -> None:
    account = scene.open("query", what="x" * 10_000)
    assert account.name == f"query ({'x' * 80}…)"


def test_accounts_add_up_whatever_threads_do_with_them() -> None:
    scene = Scene(100 * MIB)

    def use(number: int) -> None:
        for turn in range(200):
            with scene.open(f"query {number} {turn}") as account:
                try:
                    account.draw((number + 1) * 4 * MIB)
                    account.give_back(MIB)
                    account.draw(30 * MIB)
                except MemoryShortError:
                    continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert scene.budget.used_bytes == 0
    assert scene.budget.is_idle


# What the process really takes


class Process:
    """What a process takes, as a test says."""

    def __init__(self, scene: Scene, limit_bytes: int = GIB, garbage_bytes: int = 0) -> None:
        self.taken_bytes = 100 * MIB
        self.kept_bytes = garbage_bytes
        """What can be given back."""
        self.did: list[str] = []
        self.watch = MemoryWatch(
            scene.budget,
            limit_bytes,
            trim=self._trim,
            caches=[lambda: self.did.append("caches")],
            resident=lambda: self.taken_bytes + self.kept_bytes,
        )

    def _trim(self) -> None:
        self.did.append("trim")
        self.kept_bytes = 0

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.watch.look()


def test_the_budget_has_what_is_left_beside_the_idle_process() -> None:
    scene = Scene()
    Process(scene)
    assert scene.budget.limit_bytes == round(0.9 * GIB) - 100 * MIB
    Process(scene, limit_bytes=64 * MIB)
    assert scene.budget.limit_bytes == HEAVY_BYTES  # it cannot be kept, and small queries are answered


def test_when_the_process_really_takes_too_much_the_largest_is_ended_whatever_accounts_say() -> None:
    scene = Scene()
    process = Process(scene)
    small, large = scene.open("small", 65 * MIB), scene.open("large", 66 * MIB)
    process.taken_bytes = 950 * MIB
    process.look()
    assert process.did == ["caches", "trim"]
    assert len(scene.told) == 1
    assert "large (up) was ended" in scene.told[0]
    assert "the process takes 950 MiB of the 1,024 MiB that it may" in scene.told[0]
    process.look(3)
    assert len(scene.told) == 1  # it has not ended yet
    large.close()
    process.look()
    assert len(scene.told) == 2
    small.close()


def test_when_one_that_is_about_to_end_is_not_enough_the_next_one_goes_too() -> None:
    scene = Scene(GIB)
    process = Process(scene)
    accounts = [scene.open(f"query {number}", 100 * MIB) for number in range(4)]
    process.taken_bytes = 1100 * MIB
    process.look(4)
    assert len(scene.told) == 2
    process.taken_bytes = 1300 * MIB
    process.look(4)
    assert len(scene.told) == 4
    for account in accounts:
        account.close()


def test_what_can_be_given_back_for_nothing_goes_before_a_query() -> None:
    scene = Scene()
    process = Process(scene)
    with scene.open("large", 300 * MIB):
        process.taken_bytes, process.kept_bytes = 500 * MIB, 450 * MIB
        process.look()
        assert process.did == ["caches", "trim"]
        assert scene.told == []
        assert not scene.budget.is_short


def test_while_memory_is_short_nobody_becomes_heavy_and_small_ones_are_answered() -> None:
    scene = Scene()
    process = Process(scene)
    heavy, light, tiny = scene.open("heavy", 100 * MIB), scene.open("light", 10 * MIB), scene.open("tiny")
    process.taken_bytes = 850 * MIB
    process.look()
    assert tiny.draw(20 * MIB) == 20 * MIB
    assert heavy.draw(150 * MIB) == 150 * MIB
    with pytest.raises(MemoryShortError, match=r"light \(up\) was ended: .* short of memory, with memory_bytes nearly"):
        light.draw(70 * MIB)
    process.taken_bytes = 500 * MIB
    process.look()
    assert tiny.draw(70 * MIB) == 70 * MIB
    for account in (heavy, light, tiny):
        account.close()


def test_nobody_is_refused_or_ended_for_memory_that_is_free_already() -> None:
    scene = Scene(GIB)
    process = Process(scene)
    for number in range(
        20
    ):  # one query after the other, of which each leaves something: sooner than a collection may come
        with scene.open(f"query {number}", 10 * MIB) as account:
            process.taken_bytes, process.kept_bytes = 200 * MIB, 650 * MIB + 300 * MIB * (number % 2)
            process.look(4)
            assert account.draw(100 * MIB) == 100 * MIB
    assert scene.told == []
    assert process.did.count("caches") == 2


def test_before_a_query_is_ended_what_is_free_goes_back_however_soon_after_the_last_time() -> None:
    scene = Scene(GIB)
    process = Process(scene)
    with scene.open("query", 100 * MIB):
        for _ in range(5):
            process.taken_bytes, process.kept_bytes = 200 * MIB, 800 * MIB
            process.look()
        assert scene.told == []


def test_a_process_that_is_larger_than_it_may_be_keeps_its_caches_when_letting_go_of_them_does_not_help() -> None:
    scene = Scene()
    process = Process(scene, limit_bytes=100 * MIB)
    process.look(200)
    assert process.did.count("caches") == 1
    process.taken_bytes = 200 * MIB
    process.look(40)
    assert process.did.count("caches") == 2


def test_a_small_query_is_not_ended_for_what_it_does_not_have() -> None:
    scene = Scene()
    process = Process(scene)
    with scene.open("small", 10 * MIB):
        process.taken_bytes = 2 * GIB
        process.look(50)
        assert scene.told == []


def test_freed_memory_goes_back_when_nothing_has_run_for_a_while_and_only_then() -> None:
    scene = Scene()
    process = Process(scene)
    process.kept_bytes = 300 * MIB
    with scene.open("query", 100 * MIB):
        process.look(50)
        assert process.did == []
    process.look(7)
    assert process.did == []
    process.look()
    assert process.did == ["trim"]
    process.look(50)
    assert process.did == ["trim"]  # there is nothing to be had


def test_what_stays_though_nothing_runs_is_taken_for_the_idle_process() -> None:
    scene = Scene()
    process = Process(scene)
    process.taken_bytes = 300 * MIB
    process.look(20)
    assert process.did == ["trim", "trim"]  # a collection in between
    assert scene.budget.limit_bytes == round(0.9 * GIB) - 300 * MIB
    process.taken_bytes = 200 * MIB
    process.look()
    assert scene.budget.limit_bytes == round(0.9 * GIB) - 200 * MIB


def test_what_may_be_garbage_is_not_taken_for_the_idle_process_before_a_collection() -> None:
    scene = Scene()
    process = Process(scene)
    process.taken_bytes = 300 * MIB
    process.look(8)
    process.did.clear()
    process.taken_bytes = 500 * MIB  # right after a collection, so that the next has to wait
    process.look(8)
    assert process.did == ["trim"]
    assert scene.budget.limit_bytes == round(0.9 * GIB) - 300 * MIB
    process.look(40)
    assert process.did[-2:] == ["trim", "trim"]  # a collection in between
    assert scene.budget.limit_bytes == round(0.9 * GIB) - 500 * MIB


def test_the_watch_looks_by_itself_until_the_end() -> None:
    scene = Scene()
    process = Process(scene)
    process.taken_bytes = 2 * GIB
    ended = scene.open("large", 100 * MIB)
    with process.watch:
        while not scene.told:
            pass
    ended.close()


def test_what_this_process_takes_is_known() -> None:
    before = resident_bytes()
    if not before:
        pytest.skip("the system does not tell")
    block = bytearray(100 * MIB)
    for place in range(0, len(block), 4096):
        block[place] = 1
    assert 90 * MIB < resident_bytes() - before < 200 * MIB
