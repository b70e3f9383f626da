"""What a recruiter measures."""

import asyncio

from quarterdeck.http.stalls import StallFigures
from quarterdeck.recruiter.machine.pool import NodeFigures, PoolFigures
from quarterdeck.recruiter.metering import RecruiterMeter, RecruiterMetrics, measured, scaling
from quarterdeck.recruiter.service import RecruiterService
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import Rejection
from tests.crew.played import LoopClock, played
from tests.recruiter.test_service import Numbered, offer
from tests.telemetry.scrape import value

FIGURES = PoolFigures(
    free=1,
    nodes=2,
    reserved=3,
    registrations=4,
    superseded=5,
    recruits=6,
    asked=70,
    granted=8,
    by_node={"n1": NodeFigures(9, 10), "n2": NodeFigures(0, 11)},
)


@played
async def test_a_worker_that_is_given_away_tells_how_long_it_had_waited() -> None:
    registry = new_registry()
    metrics = RecruiterMetrics(registry)
    service = RecruiterService(LoopClock(), Numbered(), RecruiterMeter(metrics.wait))
    for name in ("a", "b", "c"):
        service.open(offer(name), 30.0, lambda _: None)
    await asyncio.sleep(4.0)
    service.recruit(2)
    assert value(registry, "quarterdeck_recruiter_worker_wait_seconds_count") == 2
    assert value(registry, "quarterdeck_recruiter_worker_wait_seconds_bucket", le="2.0") == 0
    assert value(registry, "quarterdeck_recruiter_worker_wait_seconds_bucket", le="5.0") == 2
    service.close()


def test_figures_stand_under_the_right_names() -> None:
    registry = new_registry()
    RecruiterMetrics(registry).read_figures_from(
        lambda: measured(FIGURES, {Rejection.HTTP_TOKEN: 12}, {"/recruiter/recruit": StallFigures(13, 14.5)})
    )
    prefix = "quarterdeck_recruiter"
    assert value(registry, f"{prefix}_free_workers") == 1
    assert value(registry, f"{prefix}_nodes") == 2
    assert value(registry, f"{prefix}_reserved_workers") == 3
    assert value(registry, f"{prefix}_registrations_total") == 4
    assert value(registry, f"{prefix}_registrations_superseded_total") == 5
    assert value(registry, f"{prefix}_recruits_total") == 6
    assert value(registry, f"{prefix}_workers_asked_total") == 70
    assert value(registry, f"{prefix}_workers_granted_total") == 8
    assert value(registry, f"{prefix}_workers_short_total") == 62
    assert value(registry, f"{prefix}_node_free_workers", node="n1") == 9
    assert value(registry, f"{prefix}_node_workers_granted_total", node="n2") == 11
    assert value(registry, f"{prefix}_callers_rejected_total", reason="http_token") == 12
    assert value(registry, f"{prefix}_event_loop_stalls_total", route="/recruiter/recruit") == 13
    assert value(registry, f"{prefix}_event_loop_stall_seconds_total", route="/recruiter/recruit") == 14.5


def test_an_autoscaler_gets_flat_numbers() -> None:
    assert scaling(FIGURES) == {
        "recruiter_free": 1,
        "recruiter_nodes": 2,
        "recruiter_reserved": 3,
        "recruiter_registrations_total": 4,
        "recruiter_recruits_total": 6,
        "recruiter_asked_total": 70,
        "recruiter_granted_total": 8,
        "recruiter_short_total": 62,
    }
