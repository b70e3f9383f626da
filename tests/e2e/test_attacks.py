"""A crew under attack, in short form, with an innocent client beside each: it gets right answers, soon. Afterwards no
worker was lost, nothing is left behind, and the processes are as small as before."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e import attacks
from tests.e2e.attacks import LONG, Ground
from tests.e2e.crew import Crew, until
from tests.e2e.door import Scan
from tests.e2e.innocent import Innocent, Memory, Question
from tests.e2e.lake import ALL, same
from tests.e2e.log_lines import search

pytestmark = [pytest.mark.xdist_group("e2e-attacks"), pytest.mark.timeout(200)]

SHUT_OUT: Final = {401, 403, 415, 421}
SOON_S: Final = 5.0
"""For what is refused before any work is done: it takes milliseconds, and less than this on any machine."""
SLOW: Final = 400


@dataclass(frozen=True, slots=True)
class Whole:
    """The crew as it was before all attacks."""

    ground: Ground
    questions: list[Question]
    memory: Memory
    incarnations: dict[str, int]

    def insist(self) -> None:
        """Nobody was lost, or started again."""
        coordinator = self.ground.coordinator
        assert incarnations_of(self.ground) == self.incarnations
        assert coordinator.accepting() == set(self.incarnations)
        assert len(coordinator.log.find("worker registers")) == len(self.incarnations)
        lost = coordinator.door.metrics().get("quarterdeck_coordinator_disconnects_total", {})
        assert not sum(lost.values()), lost


def incarnations_of(ground: Ground) -> dict[str, int]:
    return {name: worker["incarnation"] for name, worker in ground.coordinator.workers().items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("attacks")
    with Crew(folder) as crew:
        ground = attacks.set_out(crew, folder, workers=2)
        attacks.warm_up(ground)
        yield Whole(ground, ground.questions(), Memory(ground.members), incarnations_of(ground))
        engines = ground.engines()
        assert engines, "workers have engines"
    until(lambda: not any(map(attacks.runs, engines)), "no engine has outlived its worker")


@pytest.fixture
def ground(whole: Whole) -> Ground:
    return whole.ground


@pytest.fixture
def innocent(whole: Whole) -> Iterator[Innocent]:
    """Beside what the test does."""
    with Innocent(whole.questions) as innocent:
        yield innocent
    whole.ground.wait_quiet()
    whole.memory.wait_back()
    print(whole.memory.told())
    whole.insist()


# Getting in


def test_web_pages_and_processes_without_the_token_change_nothing(ground: Ground, innocent: Innocent) -> None:
    for _ in innocent.still():
        with ThreadPoolExecutor(2, thread_name_prefix="stranger") as pool:
            knocking = [pool.submit(attacks.knock_everywhere, ground) for _ in range(2)]
            said = attacks.dial_without_token(ground.coordinator, 10)
            found = search(ground.coordinator, "level=error", [ground.logs.source])
        assert all(one.result() <= SHUT_OUT for one in knocking)
        assert all("the token is missing" in word for word in said), said
        assert found.rows
        assert all(row["level"] == "error" for row in found.rows)
        assert len(found.rows) == ground.logs.truth("SELECT count(*) AS n FROM logs WHERE level = 'error'")[0]["n"]
    free = ground.door.get("/recruiter/listfree")["workers"]
    assert all(worker["addr"] != "127.0.0.1:1" for worker in free)


# Starving others


def test_parentheses_reach_no_parser(ground: Ground, innocent: Innocent) -> None:
    for _ in innocent.still():
        for depth in (3000, 20_000):
            began_s = time.monotonic()
            refused = attacks.refusal(ground.door, Scan(attacks.nested(depth), [ground.lake.source]))
            assert (refused.status, refused.code) == (400, "invalid_argument")
            refused = attacks.refused_search(ground.door, "(" * depth + "a" + ")" * depth, [ground.logs.source])
            assert (refused.status, refused.code) == (400, "invalid_argument")
            assert time.monotonic() - began_s < SOON_S


def test_a_query_whose_engine_dies_twice_is_quarantined(ground: Ground, innocent: Innocent) -> None:
    told, ended = attacks.end_the_engine_of_a_long_scan(ground, times=4)
    assert told.code == "quarantined", told
    assert ended >= 2
    for _ in innocent.still():
        time.sleep(0.1)


def test_a_query_that_takes_all_memory_is_refused_by_name(ground: Ground, innocent: Innocent) -> None:
    for _ in innocent.still():
        for sql in attacks.RUNAWAYS:
            refused = attacks.refusal(ground.door, Scan(sql, timeout_s=60))
            assert refused.code == "resource_exhausted", refused
            assert "duckdb_memory_bytes" in str(refused)


def test_wide_queries_are_refused_and_leave_no_memory_behind(ground: Ground, innocent: Innocent) -> None:
    del innocent
    for _ in range(8):
        reply = attacks.ask_wide(ground)
        assert reply.error == (422, "execution"), reply.body[:200]
        assert "the limit of a query is 16 MiB" in reply.text


def test_a_chain_of_label_replace_is_refused_before_it_takes_memory(ground: Ground, innocent: Innocent) -> None:
    for _ in innocent.still():
        reply = attacks.ask_chain(ground)
        assert reply.error == (422, "execution"), reply.body[:200]
        assert "may have 65,536" in reply.text


def test_a_flood_of_heavy_queries_holds_up_no_light_one(whole: Whole) -> None:
    ground = whole.ground
    lights = [question for question in whole.questions if question.name == "query"]
    with Innocent(lights) as innocent, attacks.flood(ground, clients=30) as statuses:
        until(lambda: ground.door.get("/monitor/scaling")["queries_queued"] > 0, "all places are taken")
        for _ in innocent.still():
            time.sleep(0.05)
    assert statuses <= {200, 422}
    ground.wait_quiet()
    whole.memory.wait_back()
    whole.insist()


def test_a_long_scan_holds_up_nobody_and_whoever_leaves_it_frees_its_place(ground: Ground, innocent: Innocent) -> None:
    """Works of light scans that are given to its worker go to the one that is idle."""
    expected = ground.lake.truth(ALL)
    with attacks.long_scan(ground) as query_id:
        until(lambda: any(worker.busy for worker in ground.workers), "it runs")
        for _ in innocent.still():
            assert same(ground.door.scan(Scan(ALL, ground.lake.files)).table, expected)
        assert ground.coordinator.query(query_id)["state"] == "running"
    until(lambda: ground.coordinator.query(query_id)["state"] != "running", "it was canceled")
    refused = attacks.refusal(ground.door, Scan(LONG, ground.lake.files[:1], timeout_s=0.5))
    assert refused.code == "deadline_exceeded"


def test_when_long_scans_have_all_their_places_queries_go_on(whole: Whole) -> None:
    """Scans have to wait then, and a log search finds nobody who is idle: it is the coordinator that searches."""
    ground = whole.ground
    others = [question for question in whole.questions if question.name != "scan"]
    with Innocent(others) as innocent, attacks.long_scan(ground), attacks.long_scan(ground):
        until(lambda: all(worker.busy for worker in ground.workers), "both run")
        for _ in innocent.still():
            time.sleep(0.05)
    ground.wait_quiet()
    whole.insist()


def test_fifos_hold_up_nobody(ground: Ground, innocent: Innocent) -> None:
    expected = ground.lake.truth(ALL)
    with attacks.fifos(ground) as (parquet, ndjson):
        for _ in innocent.still():
            refused = attacks.refusal(ground.door, Scan(ALL, [str(parquet)]))
            assert (refused.status, "it is a FIFO" in str(refused)) == (400, True), refused
            refused = attacks.refused_search(ground.door, "*", [str(ndjson)])
            assert (refused.status, "it is a FIFO" in str(refused)) == (400, True), refused
            assert same(ground.door.scan(Scan(ALL, [ground.lake.source])).table, expected)
        for member in ground.members:
            member.door.ask("GET", "/ready")


def test_two_hundred_thousand_matchers_are_refused_at_once(ground: Ground, innocent: Innocent) -> None:
    bodies = [attacks.many_selectors(200_000), attacks.many_matchers(200_000)]
    for _ in innocent.still():
        for body in bodies:
            began_s = time.monotonic()
            assert attacks.ask_for_series(ground.door, body) in {400, 413, 422}
            assert time.monotonic() - began_s < SOON_S


def test_slow_bodies_hold_neither_memory_nor_places(ground: Ground, innocent: Innocent) -> None:
    del innocent
    for sent_bytes in (1000, 500_000):
        with attacks.slow_bodies(ground.coordinator, SLOW // 2, sent_bytes) as connections:
            for connection in connections:
                _read_to_the_end(connection)


def _read_to_the_end(connection: socket.socket) -> None:
    """The server lets it go, with or without a word."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
