"""A metric's name, type, meaning and audience. They are declared once; exposition and documentation come from here.

Rules: names begin with the process (`quarterdeck_coordinator_`, `quarterdeck_worker_`), or with a service that several
kinds of process have (`quarterdeck_recruiter_`, `quarterdeck_search_`). They end with the base unit if there is one
(`_seconds`, `_bytes`), and with `_total` if they only rise. Every combination of label values exists from the start, at
zero, so a rate is right from the first event on. The exception is a label whose values come and go: only metrics that
are read at the scrape may have one (`figures.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar

from quarterdeck.telemetry.metrics.exemplars import exemplar_labels
from quarterdeck.telemetry.metrics.series import Counter, Histogram, Witness

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Exposed
    from prometheus_client.samples import Exemplar as ExposedExemplar

LabelT = TypeVar("LabelT", bound=str)
LabelT_co = TypeVar("LabelT_co", bound=str, covariant=True)
OtherT = TypeVar("OtherT", bound=str)
EnumT = TypeVar("EnumT", bound=StrEnum)

_UNITS = ("seconds", "bytes")


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    """Always 1; what it says is in its labels."""


class Audience(StrEnum):
    """Who looks at a metric, and so why it is there."""

    SERVICE_LEVEL = "service level"
    """What the people who ask get: promises are judged by it."""
    ON_CALL = "on call"
    """What tells that something is broken, and where."""
    CAPACITY = "capacity"
    """What tells whether there are enough workers, disk and memory; autoscalers read it."""
    TUNING = "tuning"
    """What tells whether a setting or a plan is good."""


@dataclass(frozen=True, slots=True)
class Label(Generic[LabelT_co]):
    """A label and all the values it can have."""

    name: str
    values: tuple[LabelT_co, ...]
    """None for a label whose values are not known before: it has one value in a process and another in the next, such
    as a version, or values that come and go, such as nodes."""


def label(name: str, values: type[EnumT]) -> Label[EnumT]:
    """A label whose values are all those of an enumeration."""
    return Label(name, tuple(values))


_SUFFIXES = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}


@dataclass(frozen=True, slots=True)
class Description:
    """Everything about a metric but its numbers."""

    name: str
    """As it is in a query, `_total` included."""
    type: MetricType
    meaning: str
    audience: Audience
    labels: tuple[Label[str], ...] = ()

    @property
    def family_name(self) -> str:
        """OpenMetrics names a family without what its type puts at the end."""
        return self.name.removesuffix(_SUFFIXES.get(self.type, ""))

    @property
    def unit(self) -> str:
        return next((unit for unit in _UNITS if self.family_name.endswith(f"_{unit}")), "")

    def exposed(self) -> "Exposed":
        """The family as prometheus-client knows it, without samples."""
        from prometheus_client import Metric as Exposed  # noqa: PLC0415 - loaded when it is needed

        return Exposed(self.family_name, self.meaning, self.type, self.unit)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A counter or a histogram with all its series; a collector of prometheus-client's."""

    description: Description
    series: Mapping[tuple[str, ...], Counter | Histogram]
    """By the values of its labels; without labels there is one, under ()."""

    def describe(self) -> list["Exposed"]:
        return [self.description.exposed()]

    def collect(self) -> list["Exposed"]:
        exposed = self.description.exposed()
        names = [label.name for label in self.description.labels]
        for values, series in self.series.items():
            labels = dict(zip(names, values, strict=True))
            if isinstance(series, Counter):
                exemplar = _exposed_exemplar(series.witness)
                exposed.add_sample(f"{exposed.name}_total", labels, series.value, exemplar=exemplar)
            else:
                _expose_histogram(exposed, labels, series)
        return [exposed]


def _expose_histogram(exposed: "Exposed", labels: dict[str, str], histogram: Histogram) -> None:
    bounds = [*(str(bound) for bound in histogram.bounds), "+Inf"]
    reached = list(accumulate(histogram.counts))
    for bound, count, witness in zip(bounds, reached, histogram.witnesses, strict=True):
        exemplar = _exposed_exemplar(witness)
        exposed.add_sample(f"{exposed.name}_bucket", {**labels, "le": bound}, count, exemplar=exemplar)
    # The count comes from the buckets just read, so the two agree, whatever is observed meanwhile.
    exposed.add_sample(f"{exposed.name}_count", labels, reached[-1])
    exposed.add_sample(f"{exposed.name}_sum", labels, histogram.total)


def _exposed_exemplar(witness: Witness | None) -> "ExposedExemplar | None":
    from prometheus_client.samples import Exemplar as ExposedExemplar  # noqa: PLC0415 - loaded when it is needed

    if witness is None:
        return None
    labels = exemplar_labels(witness.exemplar)
    return None if labels is None else ExposedExemplar(labels, witness.value, round(witness.at_s, 3))


class Families:
    """The metrics of one process: made here, under one prefix, on one registry."""

    def __init__(self, registry: "CollectorRegistry", prefix: str) -> None:
        self.registry = registry
        self.prefix = prefix
        self._descriptions: list[Description] = []
        self._figures_failed: Counter | None = None

    def __iter__(self) -> Iterator[Description]:
        """What was declared, in that order."""
        return iter(self._descriptions)

    @property
    def figures_failed(self) -> Counter:
        """For whatever reads figures of this process at the scrape: one for all of them."""
        if self._figures_failed is None:
            self._figures_failed = self.counter(
                "figures_failed_total", "Scrapes without gauges, because reading them failed.", Audience.ON_CALL
            )
        return self._figures_failed

    def describe(
        self, name: str, of_type: MetricType, meaning: str, audience: Audience, labels: tuple[Label[str], ...] = ()
    ) -> Description:
        """Declares a metric whose numbers somebody else has."""
        description = Description(f"{self.prefix}_{name}", of_type, meaning, audience, labels)
        self._descriptions.append(description)
        return description

    def counter(self, name: str, meaning: str, audience: Audience) -> Counter:
        counter = Counter()
        self._add(self.describe(name, MetricType.COUNTER, meaning, audience), {(): counter})
        return counter

    def counter_by(self, name: str, meaning: str, audience: Audience, by: Label[LabelT]) -> Mapping[LabelT, Counter]:
        counters = {value: Counter() for value in by.values}
        description = self.describe(name, MetricType.COUNTER, meaning, audience, (by,))
        self._add(description, {(str(value),): counter for value, counter in counters.items()})
        return counters

    def histogram(self, name: str, meaning: str, audience: Audience, bounds: Sequence[float]) -> Histogram:
        histogram = Histogram(bounds)
        self._add(self.describe(name, MetricType.HISTOGRAM, meaning, audience), {(): histogram})
        return histogram

    def histogram_by(
        self, name: str, meaning: str, audience: Audience, bounds: Sequence[float], by: Label[LabelT]
    ) -> Mapping[LabelT, Histogram]:
        histograms = {value: Histogram(bounds) for value in by.values}
        description = self.describe(name, MetricType.HISTOGRAM, meaning, audience, (by,))
        self._add(description, {(str(value),): histogram for value, histogram in histograms.items()})
        return histograms

    def histogram_by_two(
        self,
        name: str,
        meaning: str,
        audience: Audience,
        bounds: Sequence[float],
        labels: tuple[Label[LabelT], Label[OtherT]],
    ) -> Mapping[tuple[LabelT, OtherT], Histogram]:
        first, second = labels
        histograms = {(one, other): Histogram(bounds) for one in first.values for other in second.values}
        description = self.describe(name, MetricType.HISTOGRAM, meaning, audience, labels)
        self._add(description, {(str(one), str(other)): found for (one, other), found in histograms.items()})
        return histograms

    def _add(self, description: Description, series: Mapping[tuple[str, ...], Counter | Histogram]) -> None:
        self.registry.register(Family(description, series))
