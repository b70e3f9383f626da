"""What a query may take: beyond it is a clear error, the crew lives on, and those who have to wait are seen."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.crew import Coordinator, until
from tests.e2e.door import hang_up
from tests.e2e.fleet import Fleet
from tests.e2e.promql import Ask, Reply, answer, asked, begun
from tests.e2e.samples import Samples

pytestmark = pytest.mark.xdist_group("e2e-fleet")

PUDDLE = Samples("puddle", series=240, times=400)
HERD = Samples("herd", series=2000, times=4)
LIGHT = PUDDLE.ask("sum by (job) (rate($m[5m]))")
PATIENT = PUDDLE.ask("max_over_time(sum by (job) (rate($m[5m]))[5m:1m])")
"""One with a subquery waits for its turn; a light one need not."""
SOON_S = 8.0
"""For an answer that waits for nothing but a busy machine: less than the long query would take."""


@pytest.fixture(scope="module", autouse=True)
def data(mooring: Fleet, tmp_path_factory: pytest.TempPathFactory) -> None:
    for samples in (PUDDLE, HERD):
        mooring.store.put(samples, "default", 4, tmp_path_factory.mktemp("limits"))


@pytest.fixture
def strict(fleet: Fleet) -> Iterator[Coordinator]:
    """Whatever a test has asked too much of it: it answers afterwards, and its worker is idle."""
    yield fleet.strict
    until(lambda: fleet.last.busy == fleet.last.queued == 0, "nothing runs any more")
    assert answer(fleet.strict.door, LIGHT).result == PUDDLE.truth(LIGHT)
    assert fleet.last.name in fleet.strict.accepting()


@pytest.fixture
def long(fleet: Fleet) -> Ask:
    """Ten seconds of work, within the limits."""
    leaves = (f'max(quantile_over_time(0.{digit}, $m{{zone!="z0"}}[1h]))' for digit in range(1, 9))
    return fleet.tide.ask(" + ".join(leaves), step_s=4)


def test_a_query_that_would_read_too_many_samples_is_refused(strict: Coordinator, fleet: Fleet) -> None:
    reply = answer(strict.door, fleet.tide.ask("sum(sum_over_time($m[5m]))"))
    assert reply.error == (422, "execution")
    assert "too many samples" in reply.text
    assert "700,000" in reply.text


@pytest.mark.parametrize(
    "ask",
    [
        HERD.ask("count($m)"),
        Ask("", {"match[]": "herd", "start": HERD.end_ms / 1000, "end": HERD.end_ms / 1000}, path="/api/v1/series"),
    ],
    ids=["query", "series"],
)
def test_what_would_touch_too_many_series_is_refused(strict: Coordinator, ask: Ask) -> None:
    reply = answer(strict.door, ask)
    assert reply.error == (422, "execution")
    assert "1,500" in reply.text
    assert "series" in reply.text


def test_a_query_that_would_need_too_much_memory_is_refused(strict: Coordinator) -> None:
    reply = answer(strict.door, PUDDLE.ask("$m", step_s=0.6))
    assert reply.error == (422, "execution")
    assert "of memory and the limit of a query is 32 MiB" in reply.text


def test_a_query_whose_time_is_over_is_told_so_and_its_works_are_stopped(
    strict: Coordinator, fleet: Fleet, long: Ask
) -> None:
    began_s = time.monotonic()
    reply = answer(strict.door, long.where(timeout="300ms"))
    assert time.monotonic() - began_s < SOON_S
    assert reply.error == (503, "timeout")
    assert "timed out" in reply.text
    until(lambda: fleet.last.busy == fleet.last.queued == 0, "its works are stopped", within_s=SOON_S)


def test_beyond_as_many_as_may_run_at_once_queries_wait_in_line_and_it_shows(strict: Coordinator, long: Ask) -> None:
    with ExitStack() as clients:
        running = [clients.enter_context(begun(strict.door, long)) for _ in range(2)]
        until(lambda: scaling(strict)["queries_running"] == 2, "two run")
        with asked(strict.door, PATIENT) as reply:
            until(lambda: scaling(strict)["queries_queued"] == 1, "the third waits")
            until(lambda: scaling(strict)["oldest_query_age_s"] > 0.05, "and for how long is known")
            assert scaling(strict)["queries_running"] == 2
            for connection in running:
                hang_up(connection)
        assert reply.result().result == PUDDLE.truth(PATIENT)
    until(lambda: scaling(strict)["queries_running"] == 0, "nobody runs or waits")
    assert scaling(strict)["oldest_query_age_s"] == 0


def test_a_query_whose_time_is_over_while_it_waits_in_line_is_told_so(strict: Coordinator, long: Ask) -> None:
    with begun(strict.door, long), begun(strict.door, long):
        until(lambda: scaling(strict)["queries_running"] == 2, "two run")
        began_s = time.monotonic()
        reply: Reply = answer(strict.door, PATIENT.where(timeout="200ms"))
        assert time.monotonic() - began_s < SOON_S
        assert reply.error == (503, "timeout")
        assert scaling(strict)["queries_queued"] == 0


def test_a_client_that_hangs_up_while_it_waits_has_left_the_line(strict: Coordinator, long: Ask) -> None:
    with begun(strict.door, long), begun(strict.door, long):
        until(lambda: scaling(strict)["queries_running"] == 2, "two run")
        with begun(strict.door, PATIENT):
            until(lambda: scaling(strict)["queries_queued"] == 1, "the third waits")
        until(lambda: scaling(strict)["queries_queued"] == 0, "it has left the line", within_s=SOON_S)
        assert scaling(strict)["queries_running"] == 2


def scaling(coordinator: Coordinator) -> dict[str, float]:
    return coordinator.door.get("/monitor/scaling")
