"""What it measures."""

from dataclasses import dataclass
from typing import Final

from quarterdeck.telemetry.contributions import MetricsOf
from quarterdeck.telemetry.metrics import Counter
from quarterdeck.telemetry.metrics.families import Audience, Families


@dataclass(frozen=True, slots=True)
class TallyMetrics:
    words: Counter


def on_coordinator(families: Families) -> TallyMetrics:
    return TallyMetrics(families.counter("tally_words_total", "Words that workers counted.", Audience.CAPACITY))


METRICS_OF_TALLY: Final = MetricsOf(on_coordinator=on_coordinator)
