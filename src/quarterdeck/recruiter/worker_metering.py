"""What a worker measures of its part in reservations."""

from dataclasses import dataclass

from quarterdeck.telemetry.metrics.families import Audience, Families
from quarterdeck.telemetry.metrics.figures import Readings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationFigures:
    """Of a worker, as of now."""

    reserved: bool
    """For a log search."""
    searches: int
    """Parts of log searches that run."""
    searches_broken: int
    recruit_failures: int
    abandoned: int


def worker_readings(families: Families) -> Readings[ReservationFigures]:
    """What reservations add to a worker's metrics."""
    readings = Readings[ReservationFigures](families)
    readings.level(
        "reserved", "1 while the worker is reserved for a log search, else 0.", Audience.CAPACITY, lambda f: f.reserved
    )
    readings.level(
        "searches_in_flight",
        "Parts of log searches that are running.",
        Audience.CAPACITY,
        lambda figures: figures.searches,
    )
    readings.total(
        "searches_broken_total",
        "Parts of log searches that did not finish, because the root disconnected, hung, or released the worker.",
        Audience.ON_CALL,
        lambda figures: figures.searches_broken,
    )
    readings.total(
        "recruit_registrations_failed_total",
        "Failed attempts to register with a recruiter.",
        Audience.ON_CALL,
        lambda figures: figures.recruit_failures,
    )
    readings.total(
        "abandoned_total",
        "Times the worker gave up a reservation because nothing came to search.",
        Audience.ON_CALL,
        lambda figures: figures.abandoned,
    )
    readings.register()
    return readings
