"""Declared things through real processes: held as long as they are declared, whatever is killed, and then gone."""

import signal
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.crew import Coordinator, Crew, Document, Worker, until
from tests.e2e.test_leadership import leads

pytestmark = pytest.mark.xdist_group("e2e-declared")

LEASE_S = 2.0
PROGRAM = ("-m", "tests.e2e.pantry")


@dataclass(frozen=True, slots=True)
class House:
    crew: Crew
    coordinators: tuple[Coordinator, ...]
    workers: tuple[Worker, ...]

    @property
    def one(self) -> Coordinator:
        return self.coordinators[0]

    def declared(self, at: Coordinator | None = None) -> dict[str, Document]:
        return (at or self.one).door.get("/v1/jars")

    def held(self) -> dict[str, list[str]]:
        """By worker that is up: the jars it has, each as often as it has it."""
        return {
            worker.name: sorted(name.partition("@")[0] for name in worker.door.get("/v1/jars"))
            for worker in self.workers
            if worker.is_up
        }

    def declare(self, shelf: str, content: str = "plums", jars: int = 1, worker: str = "") -> None:
        self.one.door.post(f"/v1/jars/{shelf}?content={content}&jars={jars}&worker={worker}", {})

    def withdraw(self, shelf: str, at: Coordinator | None = None) -> None:
        (at or self.one).door.post(f"/v1/jars/{shelf}/withdraw", {})

    def wait_held(self, *jars: str, at: Coordinator | None = None) -> None:
        """Exactly these are held, each by the worker that is committed for it, and nothing else is declared."""

        def is_so() -> bool:
            declared = self.declared(at)
            where = sorted((jar["worker"], name) for name, jar in declared.items() if jar["state"] == "held")
            there = sorted((worker, jar) for worker, held in self.held().items() for jar in held)
            return sorted(declared) == sorted(jars) == sorted(name for _, name in where) and where == there

        until(is_so, f"{jars or 'nothing'} is held")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """A coordinator and two workers."""
    folder = tmp_path_factory.mktemp("house")
    with Crew(folder, program=PROGRAM) as crew:
        coordinator = crew.coordinator(leadership_lease_s=LEASE_S, database_url=folder / "shared.db").stay()
        workers = tuple(crew.worker(name, join=[coordinator.control]) for name in ("w1", "w2"))
        yield House(crew, (coordinator,), workers)


@pytest.fixture
def house(standing: House) -> House:
    """All of them there, and nothing declared: each test withdraws what it declares."""
    for member in (standing.one, *standing.workers):
        if not member.is_running:
            member.start()
    standing.one.wait_for(*standing.workers)
    for shelf in {name.partition(".")[0] for name in standing.declared()}:  # of a test that failed
        standing.withdraw(shelf)
    standing.wait_held()
    return standing


def test_what_is_declared_is_held_through_every_death_and_gone_when_it_is_withdrawn(house: House) -> None:
    house.declare("shelf", jars=2)
    house.declare("box", worker="w1")
    jars = ("shelf.0", "shelf.1", "box.0")
    house.wait_held(*jars)
    assert house.declared()["box.0"]["worker"] == "w1"

    first, second = house.workers
    first.kill()
    assert house.held() == {"w2": house.held()["w2"]}
    first.start().wait_up()
    house.wait_held(*jars)

    house.one.kill()
    held = house.held()
    house.one.start().wait_up()
    house.wait_held(*jars)
    assert house.held() == held, "nothing was acquired anew"

    for member in (second, house.one):
        member.kill()
    second.start()
    house.one.start().wait_up()
    house.wait_held(*jars)

    house.withdraw("box")
    house.wait_held("shelf.0", "shelf.1")
    house.withdraw("shelf")
    house.wait_held()
    assert house.held() == {"w1": [], "w2": []}


def test_what_comes_back_and_nobody_wants_is_stopped(house: House) -> None:
    house.declare("shelf", jars=2)
    house.wait_held("shelf.0", "shelf.1")
    house.one.kill()  # the workers hold what nobody can tell them about
    house.one.start().wait_up()
    house.withdraw("shelf")
    house.wait_held()


def test_an_error_for_good_stops_the_whole_group_and_says_why(house: House) -> None:
    house.declare("good")
    house.declare("bad", content="glass", jars=2)
    until(lambda: {jar["state"] for jar in house.declared().values()} == {"held", "failed"}, "it has failed")
    assert "glass" in house.declared()["bad.1"]["why"]
    assert sorted(jar for held in house.held().values() for jar in held) == ["good.0"]
    house.withdraw("bad")
    house.wait_held("good.0")
    house.withdraw("good")
    house.wait_held()


def test_a_drained_worker_leaves_its_jars_to_others(house: House) -> None:
    house.declare("pinned", worker="w1")
    for number in range(6):
        house.declare(f"free{number}")
    names = ("pinned.0", *(f"free{number}.0" for number in range(6)))
    house.wait_held(*names)
    first = house.workers[0]
    first.send(signal.SIGTERM)
    assert first.wait_end() == 0
    until(lambda: len(house.held()["w2"]) == 6, "the other one has what may be anywhere")
    first.start().wait_up()
    house.wait_held(*names)
    for name in names:
        house.withdraw(name.partition(".")[0])
    house.wait_held()


def test_another_coordinator_takes_over_what_is_held(tmp_path: Path) -> None:
    with Crew(tmp_path, program=PROGRAM) as crew:
        both = tuple(
            crew.coordinator(name, leadership_lease_s=LEASE_S, database_url=tmp_path / "shared.db").stay()
            for name in ("one", "two")
        )
        workers = tuple(crew.worker(name, join=[each.control for each in both]) for name in ("w1", "w2"))
        for coordinator in both:
            coordinator.wait_for(*workers)
        house = House(crew, both, workers)
        leader = until(lambda: next((each for each in both if leads(each)), None), "one of the two leads")
        assert leader is not None
        other = both[1] if leader is both[0] else both[0]
        other.door.post("/v1/jars/shelf?content=plums&jars=2", {})  # whoever does not lead declares as well
        house.wait_held("shelf.0", "shelf.1", at=other)
        held = house.held()
        leader.kill()
        until(lambda: leads(other), "the other one leads")
        other.door.post("/v1/jars/box?content=pears", {})
        house.wait_held("box.0", "shelf.0", "shelf.1", at=other)
        assert all(jar in house.held()[worker] for worker, jars in held.items() for jar in jars), "all stays in place"
        workers[0].kill()
        workers[0].start().wait_up()
        leader.start().wait_up()
        house.wait_held("box.0", "shelf.0", "shelf.1", at=leader)
        for shelf in ("box", "shelf"):
            house.withdraw(shelf, at=leader)
        house.wait_held(at=leader)
