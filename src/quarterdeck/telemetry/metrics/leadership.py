"""The metrics of leadership, in coordinators that stand for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quarterdeck.core.leadership.model import LeadershipLossReason
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.figures import Readings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipFigures:
    leads: bool
    fence: int
    """Of whoever leads, as last seen; 0 before anybody did."""
    gained: int
    lost: Mapping[LeadershipLossReason, int]
    requests_failed: int


class LeadershipMetrics:
    """Made once for a process, on its registry."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self.families = Families(registry, "quarterdeck_leadership")
        """What there is, for the reference."""
        self._readings = Readings[LeadershipFigures](self.families)
        self._readings.level(
            "leads",
            "1 while this coordinator leads. Over all coordinators of a crew the sum is 1, and 0 for a moment when "
            "leadership changes hands.",
            Audience.ON_CALL,
            lambda figures: figures.leads,
        )
        self._readings.level(
            "fence",
            "The number of the leadership that was last seen. It rises with every leader.",
            Audience.ON_CALL,
            lambda figures: figures.fence,
        )
        self._readings.total(
            "gained_total", "Times this coordinator began to lead.", Audience.ON_CALL, lambda figures: figures.gained
        )
        self._readings.total_by(
            "lost_total",
            "Times this coordinator ceased to lead, by why. Only `released` is in order.",
            Audience.ON_CALL,
            label("reason", LeadershipLossReason),
            lambda figures: figures.lost,
        )
        self._readings.total(
            "requests_failed_total",
            "Requests about leadership that the database answered with an error.",
            Audience.ON_CALL,
            lambda figures: figures.requests_failed,
        )
        self._readings.register()

    def read_figures_from(self, source: Callable[[], LeadershipFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)
