"""Two coordinators over one database: one leads, and however it ends the other one follows, with a higher fence.

No test expects a certain fence: a machine that is busy may cost a leader its lease at any time.
"""

import signal
import sqlite3
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.crew import Coordinator, Crew, Document, until
from tests.e2e.door import RefusedError, Scan
from tests.e2e.lake import ENDLESS, Lake, same

pytestmark = pytest.mark.xdist_group("e2e-leadership")

LEASE_S = 4.0
ALL = "SELECT id, host, value FROM files"


@dataclass(frozen=True, slots=True)
class Pair:
    first: Coordinator
    second: Coordinator
    database: Path

    @property
    def both(self) -> tuple[Coordinator, Coordinator]:
        return self.first, self.second

    def leader(self) -> Coordinator:
        """Who leads now."""
        return until(lambda: next((one for one in self.both if leads(one)), None), "one of the two leads") or self.first

    def other(self, than: Coordinator) -> Coordinator:
        return self.second if than is self.first else self.first


def leader_at(coordinator: Coordinator) -> Document:
    return coordinator.door.get("/v1/crew")["leader"] or {"name": None, "fence": 0, "is_this_one": False}


def leads(coordinator: Coordinator) -> bool:
    return coordinator.is_up and bool(leader_at(coordinator)["is_this_one"])


def losses(coordinator: Coordinator) -> int:
    """How often whoever follows was told so."""
    return coordinator.door.get("/v1/ledger/changes").count(None)


def write(coordinator: Coordinator, note: str, gate: Path | None = None) -> int:
    """Its fence."""
    query = "" if gate is None else f"?gate={gate}"
    return int(coordinator.door.post(f"/v1/ledger/{note}{query}", {})["fence"])


def notes(coordinator: Coordinator) -> dict[str, int]:
    return {entry["note"]: entry["fence"] for entry in coordinator.door.get("/v1/ledger")}


def written_by_whoever_leads(pair: Pair, note: str) -> int:
    """Also if leadership changes hands while it is asked for."""

    def tried() -> int | None:
        try:
            return write(pair.leader(), note)
        except RefusedError:
            return None

    fence = until(tried, f"{note} is written")
    assert fence is not None
    return fence


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("leadership")
    database = folder / "shared.db"
    with Crew(folder, program=("-m", "tests.e2e.ledger")) as crew:
        first, second = (
            crew.coordinator(name, database_url=str(database), leadership_lease_s=LEASE_S, shutdown_grace_s=0)
            for name in ("one", "two")
        )
        yield Pair(first, second, database)


@pytest.fixture
def pair(standing: Pair) -> Pair:
    """Both of them there: what a test has ended is started again."""
    for coordinator in standing.both:
        if not coordinator.is_running:
            coordinator.start()
        coordinator.wait_up()
    return standing


@contextmanager
def asked(coordinator: Coordinator, note: str, gate: Path) -> Generator[None]:
    """A write that has been decided and waits at the gate; it has to be refused in the end."""
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(write, coordinator, note, gate)
        until(Path(f"{gate}.decided").exists, "the write was decided")
        yield
        with pytest.raises(RefusedError) as caught:
            answer.result()
        assert (caught.value.status, caught.value.code) == (503, "deposed")


def test_one_of_two_leads_both_know_which_and_only_that_one_writes(pair: Pair) -> None:
    written_by_whoever_leads(pair, "a")
    leader = pair.leader()
    other = pair.other(leader)
    until(lambda: leader_at(other)["name"] == leader.name, "the other one knows")
    if not leads(other):
        with pytest.raises(RefusedError):
            write(other, "b")
    assert leader.door.metric("quarterdeck_leadership_gained_total") >= 1


def test_a_leader_that_is_killed_is_followed_by_the_other_one(pair: Pair) -> None:
    before = written_by_whoever_leads(pair, "before-kill")
    leader = pair.leader()
    other = pair.other(leader)
    leader.kill()
    until(lambda: leads(other), "the other one leads")
    assert written_by_whoever_leads(pair, "after-kill") > before
    leader.start().wait_up()
    until(lambda: leader_at(leader)["name"] is not None, "it knows who leads, back again")
    assert notes(leader)["after-kill"] > notes(leader)["before-kill"]


def test_a_late_write_of_a_leader_that_stood_still_is_refused(pair: Pair, tmp_path: Path) -> None:
    leader = pair.leader()
    other = pair.other(leader)
    gate = tmp_path / "gate"
    with asked(leader, "late", gate):
        leader.send(signal.SIGSTOP)
        try:
            until(lambda: leads(other), "the other one leads")
            gate.touch()
        finally:
            leader.send(signal.SIGCONT)
    assert "late" not in notes(other)
    assert losses(leader) > 0
    written_by_whoever_leads(pair, "after-late")


def test_a_leader_that_is_told_to_stop_releases_and_the_other_one_follows(pair: Pair) -> None:
    leader = pair.leader()
    other = pair.other(leader)
    leader.send(signal.SIGTERM)
    assert leader.wait_end() == 0
    assert named_in(pair.database) != leader.name, "it freed the row before it ended"
    until(lambda: leads(other), "the other one leads")
    assert leader.log.find("this coordinator leads no longer", reason="released")


def test_queries_live_through_gain_and_loss(pair: Pair, lake: Lake) -> None:
    leader = pair.leader()
    other = pair.other(leader)
    folder = pair.database.parent / "workers"
    folder.mkdir()
    with Crew(folder) as crew:
        worker = crew.worker("hand", join=[other.control], slots=2)
        other.wait_for(worker)
        with other.door.begun(Scan(ENDLESS, lake.files[:1])):
            (query,) = until(other.running, "the query runs")
            until(lambda: worker.busy > 0, "the worker has its work")
            leader.kill()
            until(lambda: leads(other), "it gained leadership")
            lost = losses(other)
            depose(pair.database)
            until(lambda: losses(other) > lost, "it lost leadership")
            found = other.query(str(query["query_id"]))
            assert (found["state"], found["attempts"]) == ("running", 1)
            assert same(other.door.scan(Scan(ALL, [lake.source])).table, lake.truth(ALL))


def named_in(database: Path) -> str:
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        return str(connection.execute("SELECT name FROM leaders").fetchone()[0])


def depose(database: Path) -> None:
    """As another coordinator would, which then says nothing."""
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE fences SET highest = highest + 1")
        connection.execute(
            "UPDATE leaders SET holder = 'z', name = 'z', beat = beat + 1, lease_ms = 4000, "
            "fence = (SELECT highest FROM fences)"
        )


def test_where_nothing_is_declared_nobody_is_elected(coordinator: Coordinator) -> None:
    assert "leader" not in coordinator.door.get("/v1/crew")
    assert not [name for name in coordinator.door.metrics() if name.startswith("quarterdeck_leadership")]
    with closing(sqlite3.connect(coordinator.folder.parent / "lake" / "catalog.db", timeout=60)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "segments" in tables
    assert not tables & {"leaders", "fences"}
