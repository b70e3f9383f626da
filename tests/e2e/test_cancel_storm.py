"""Hundreds of clients that go away at any moment: nothing runs for them afterwards, and nothing is left of it."""

import contextlib
import http.client
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from tests.e2e.conftest import FILES, FOUR
from tests.e2e.crew import Coordinator, Worker, until
from tests.e2e.door import Scan, hang_up
from tests.e2e.held import Held
from tests.e2e.lake import ALL, ENDLESS, Lake, burning, same

pytestmark = pytest.mark.xdist_group("e2e-shared")

QUERIES = 500
AT_ONCE = 8
LARGE = "SELECT hash(i + id) AS a FROM files, range(500) t(i)"
"""400 KB for each file, which nobody keeps in memory."""
ROUND = 50
PATIENCE_S = 0.1
"""How long a client has patience at most. Where most of a round have left before their query began, the machine is
busy, and the next have twice as much."""


def ask_and_leave(coordinator: Coordinator, scan: Scan, patience_s: float) -> None:
    """Asks, reads for a while what comes, and closes the connection."""
    leaves_at_s = time.monotonic() + patience_s
    connection = coordinator.door.connect()
    try:
        headers = {**coordinator.door.headers(), "Content-Type": "application/json", **scan.headers()}
        connection.request("POST", "/v1/scan", scan.body(), headers=headers)
        assert connection.sock is not None
        connection.sock.settimeout(patience_s)
        with contextlib.suppress(TimeoutError, http.client.HTTPException):
            response = connection.getresponse()
            while time.monotonic() < leaves_at_s and response.read(1000):
                pass
    finally:
        hang_up(connection)


def scans(lake: Lake, chance: random.Random) -> Iterator[Scan]:
    """Of all lengths, so that clients leave in all phases of a query."""
    for _ in range(QUERIES):
        sql = chance.choice([ENDLESS, ENDLESS, burning(0.5), ALL, LARGE])
        yield Scan(sql, lake.files[: chance.choice([1, 4, FILES])], FOUR)


def test_five_hundred_canceled_queries_leave_nothing_behind(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    chance = random.Random(500)
    members = [coordinator, *hands]
    coordinator.door.scan(Scan(ALL, [lake.source], FOUR))
    before = {member.name: Held.by(member) for member in members}

    def canceled() -> float:
        return coordinator.door.metric("quarterdeck_coordinator_query_seconds_count", "canceled")

    first = canceled()
    longest_s = PATIENCE_S
    with ThreadPoolExecutor(AT_ONCE) as clients:
        queries = scans(lake, chance)
        for _ in range(QUERIES // ROUND):
            begun = canceled()
            asked = [
                clients.submit(ask_and_leave, coordinator, scan, chance.random() * longest_s)
                for scan in islice(queries, ROUND)
            ]
            for each in asked:
                each.result()
            until(lambda: not coordinator.running(), "no query runs")
            longest_s *= 2 if canceled() - begun < ROUND / 2 else 1
    assert canceled() - first > QUERIES / 4, "many clients have left a query that ran"
    until(lambda: all(worker["in_flight"] == 0 for worker in coordinator.workers().values()), "no work is in flight")
    until(lambda: all(worker.busy == worker.queued == 0 for worker in hands), "no worker does anything")
    until(lambda: not any(worker.artifact_files for worker in hands), "no artifact is left")
    until(lambda: all(worker.door.metric("quarterdeck_worker_artifacts") == 0 for worker in hands), "nor in memory")
    until(lambda: not list((coordinator.folder / "spool").iterdir()), "no fetched result is left")
    for member in members:
        until(
            lambda member=member: Held.by(member).is_about(before[member.name]),
            f"{member.name} has let go of what it had; before it was {before[member.name]}",
            within_s=20,
        )
    assert same(coordinator.door.scan(Scan(ALL, [lake.source], FOUR)).table, lake.truth(ALL))
