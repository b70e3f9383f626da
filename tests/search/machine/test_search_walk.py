"""Searches with workers that finish, die, go and come as chance has it.

After every step the records agree with themselves. In the end every chunk was committed or given up once, and every
worker that was recruited was released once.
"""

import random
from collections import Counter
from collections.abc import Collection

import pytest

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine import search_events as ev
from quarterdeck.search.machine.search import SearchConfig, SearchMachine
from quarterdeck.search.machine.search_effects import (
    AssignChunk,
    CommitChunk,
    Effect,
    Finish,
    GiveUp,
    HangUp,
    Recruit,
    ReleaseWorker,
    SearchAlone,
)
from quarterdeck.search.machine.search_records import ROOT, Seat
from quarterdeck.search.model import Chunk, FileKind, Piece
from tests.each_seed import each_seed

SEEDS = range(300)
STEPS_MAX = 5_000


class World:
    """Executes the effects of a machine, and plays everybody else by chance."""

    def __init__(
        self, chance: random.Random, *, loses: float, empty: float, poison: Collection[int] | None = None
    ) -> None:
        self.chance = chance
        self.loses = loses
        self.empty = empty
        self.poison = poison or ()
        self.by_chance = poison is None
        """Whether anything may go wrong that no killer did."""
        self.count = chance.randint(0, 25)
        chunks = [
            Chunk(number, (Piece("/x", FileKind.NDJSON, 50, "", 0, chance.randint(1, 50)),))
            for number in range(self.count)
        ]
        config = SearchConfig(
            max_workers=chance.randint(1, 5),
            alone_at_once=chance.randint(1, 3),
            running_bytes=chance.choice([40, 120, 10_000]),
            held_bytes=chance.choice([1, 60, 10_000]),
        )
        self.machine = SearchMachine(config, chunks)
        self.now = 0.0
        self.asked: int | None = None
        self.running: list[tuple[Seat, int]] = []
        self.hung_up: list[tuple[Seat, int]] = []
        self.gathering: list[int] = []
        self.committed: Counter[int] = Counter()
        self.given_up: Counter[int] = Counter()
        self.ran_alone: set[int] = set()
        self.hired: Counter[str] = Counter()
        self.released: Counter[str] = Counter()
        self.finished = 0
        self.tell(ev.Started())

    def tell(self, event: ev.Event) -> None:
        for effect in self.machine.step(event, self.now):
            self.execute(effect)
        self.machine.check_invariants()

    def execute(self, effect: Effect) -> None:
        match effect:
            case Recruit(number):
                assert self.asked is None
                assert not self.finished
                self.asked = number
            case AssignChunk(seat, _, number):
                assert not self.finished
                self.running.append((seat, number))
            case SearchAlone(number):
                self.ran_alone.add(number)
                self.running.append((ROOT, number))
            case HangUp(seat, number):
                self.running.remove((seat, number))
                self.hung_up.append((seat, number))
            case CommitChunk(number):
                self.committed[number] += 1
                self.gathering.append(number)
            case GiveUp(number):
                self.given_up[number] += 1
            case ReleaseWorker(worker):
                self.released[worker.reservation] += 1
            case Finish():
                self.finished += 1

    def go_on(self) -> None:
        """Something that can happen now."""
        able = [self.pass_time] if self.machine.next_deadline() is not None else []
        able += [self.answer] * 2 if self.asked is not None else []
        able += [self.end_one] * 4 if self.running else []
        able += [self.gather] * 2 if self.gathering else []
        able += [self.speak_late] if self.hung_up else []
        assert able, "nothing can happen, and it has not ended"
        self.now += self.chance.random() * 0.1
        self.chance.choice(able)()

    def pass_time(self) -> None:
        deadline = self.machine.next_deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        self.tell(ev.TimePassed())

    def answer(self) -> None:
        assert self.asked is not None
        number = 0 if self.chance.random() < self.empty else self.chance.randint(1, self.asked + 1)
        first = len(self.hired)
        workers = [
            Recruited(f"w{n % 7}:1", "n", self.chance.randint(1, 3), f"r{n}") for n in range(first, first + number)
        ]
        self.hired.update(worker.reservation for worker in workers)
        self.asked = None
        self.tell(ev.WorkersRecruited(tuple(workers)))

    def end_one(self) -> None:
        seat, number = self.chance.choice(self.running)
        if seat != ROOT and (self.chance.random() < self.loses or self.kills(seat)):
            self.tell(ev.WorkerLost(seat, had_chunk=not self.by_chance or self.chance.random() < 0.7))
        elif self.by_chance and self.chance.random() < 0.05:
            self.running.remove((seat, number))
            self.given_up[number] += 1
            self.tell(ev.ChunkRefused(seat, number))
        else:
            self.running.remove((seat, number))
            self.tell(ev.ChunkFinished(seat, number, self.chance.randint(0, 60)))

    def kills(self, seat: Seat) -> bool:
        return any(number in self.poison for at, number in self.running if at == seat)

    def gather(self) -> None:
        self.tell(ev.ChunkGathered(self.gathering.pop(self.chance.randrange(len(self.gathering)))))

    def speak_late(self) -> None:
        seat, number = self.chance.choice(self.hung_up)
        before = self.committed[number]
        late = (ev.ChunkFinished(seat, number, 3), ev.ChunkRefused(seat, number), ev.WorkerLost(seat))
        if seat != ROOT:
            self.tell(self.chance.choice(late))
            assert self.committed[number] == before

    def run(self) -> None:
        for _ in range(STEPS_MAX):
            if self.finished:
                break
            self.go_on()
        else:
            pytest.fail("it does not end")
        if self.asked is not None:
            self.answer()
        assert self.finished == 1
        assert self.released == self.hired


@each_seed(SEEDS)
def test_every_chunk_ends_once_and_every_worker_is_released_once(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, loses=chance.choice([0.0, 0.1, 0.5]), empty=chance.choice([0.0, 0.3, 1.0]))
    world.run()
    assert world.committed + world.given_up == Counter(range(world.count))


@each_seed(SEEDS)
def test_killers_are_given_up_and_nobody_else(seed: int) -> None:
    chance = random.Random(seed)
    poison = {number for number in range(25) if chance.random() < 0.1}
    world = World(chance, loses=0.0, empty=0.0, poison=poison)
    killers = {number for number in poison if number < world.count}
    world.run()
    alone = world.ran_alone & killers  # it may meet one that has killed fewer than two, when it is on its own
    assert set(world.given_up) == killers - alone
    assert set(world.committed) == set(range(world.count)) - killers | alone


@each_seed(SEEDS)
def test_an_end_at_any_moment_leaves_nobody_behind(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, loses=0.1, empty=0.3)
    for _ in range(chance.randint(0, 60)):
        if not world.finished:
            world.go_on()
    world.tell(chance.choice([ev.SearchCanceled(), ev.SearchSatisfied()]))
    assert not world.running
    world.run()
