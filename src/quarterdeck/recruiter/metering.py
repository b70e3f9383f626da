"""What a recruiter measures, and the flat numbers that an autoscaler reads."""

from collections.abc import Mapping

from quarterdeck.http.stalls import StallFigures
from quarterdeck.recruiter.machine.pool import PoolFigures
from quarterdeck.recruiter.machine.pool_effects import Effect, Reserve
from quarterdeck.recruiter.machine.pool_events import Event
from quarterdeck.telemetry.metrics import Histogram, RecruiterFigures, Rejection


class RecruiterMeter:
    """An observer of the pool's machine: tells how long workers had waited that are given away."""

    def __init__(self, wait: Histogram) -> None:
        self._wait = wait

    def stepped(self, event: Event, effects: list[Effect]) -> None:
        del event
        for effect in effects:
            if isinstance(effect, Reserve):
                self._wait.observe(effect.waited_s)


def measured(
    pool: PoolFigures, rejections: Mapping[Rejection, int], stalls: Mapping[str, StallFigures]
) -> RecruiterFigures:
    """The figures of a scrape."""
    return RecruiterFigures(
        free_workers=pool.free,
        nodes=pool.nodes,
        reserved_workers=pool.reserved,
        registrations=pool.registrations,
        registrations_superseded=pool.superseded,
        recruits=pool.recruits,
        workers_asked=pool.asked,
        workers_granted=pool.granted,
        workers_short=pool.short,
        free_by_node={name: node.free for name, node in pool.by_node.items()},
        granted_by_node={name: node.granted for name, node in pool.by_node.items()},
        rejections=rejections,
        stalls={route: one.count for route, one in stalls.items()},
        stalled_s={route: one.seconds for route, one in stalls.items()},
    )


def scaling(pool: PoolFigures) -> Mapping[str, float]:
    """For `/monitor/scaling`."""
    return {
        "recruiter_free": pool.free,
        "recruiter_nodes": pool.nodes,
        "recruiter_reserved": pool.reserved,
        "recruiter_registrations_total": pool.registrations,
        "recruiter_recruits_total": pool.recruits,
        "recruiter_asked_total": pool.asked,
        "recruiter_granted_total": pool.granted,
        "recruiter_short_total": pool.short,
    }
