"""How often and how long the event loop of a process was blocked. It is the same for every kind of process."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from quarterdeck.telemetry.metrics.families import Audience
from quarterdeck.telemetry.metrics.figures import Readings

FiguresT = TypeVar("FiguresT")


def declare_stalls(
    readings: Readings[FiguresT],
    counts: Callable[[FiguresT], Mapping[str, int]],
    seconds: Callable[[FiguresT], Mapping[str, float]],
) -> None:
    """Both by the path of a route, with names instead of parameters, so that their number is limited."""
    readings.total_of_each(
        "event_loop_stalls_total",
        "Times the event loop was blocked for more than 100 ms, by the route that blocked it. Heartbeats wait.",
        Audience.ON_CALL,
        "route",
        counts,
    )
    readings.total_of_each(
        "event_loop_stall_seconds_total",
        "How long the event loop was blocked in these.",
        Audience.ON_CALL,
        "route",
        seconds,
    )
