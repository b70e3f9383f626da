"""Which metrics and label values a segment has, in a few kilobytes: enough to know that it need not be read, and to say
which metrics there are and when they have samples.

The catalog keeps it with the segment. A label with very many values is left open, and then nothing is concluded from
it.
"""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from sys import intern
from typing import Final, cast

from quarterdeck.metrics.promql.label_values import takes_each
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, get
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.matchers import accepts

MOST_VALUES: Final = 5_000
"""A label with more values in one segment is left open."""
_VERSION: Final = 2
_WITHOUT_SPANS: Final = 1
"""What earlier releases wrote. It is read for ever: segments are not written anew."""


@dataclass(frozen=True, slots=True)
class MetricSpan:
    """What a segment has of one metric."""

    series: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much of a segment a selector is about."""

    metric_rows: int
    """Rows of the metrics that it takes: these lie side by side, and are read together."""
    rows: int
    """Of these, about so many are of series that match."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelIndex:
    """See the module."""

    metrics: dict[str, int]
    """How many rows each metric has."""
    values: dict[str, frozenset[str] | None]
    """For each label, without the metric's name, the values that occur; None: too many to list."""
    spans: Mapping[str, MetricSpan] = field(default_factory=dict[str, MetricSpan])
    """For each metric; empty where the segment was written by a release that did not keep it."""

    @staticmethod
    def of(
        labels: Sequence[Labels], rows: Sequence[int], times: Sequence[tuple[int, int]] | None = None
    ) -> "LabelIndex":
        """The index of some series with so many samples each, the first and the last at these times."""
        metrics: Counter[str] = Counter()
        values: defaultdict[str, set[str]] = defaultdict(set)
        for pairs, count in zip(labels, rows, strict=True):
            metrics[get(pairs, METRIC_NAME)] += count
            for name, value in pairs:
                if name != METRIC_NAME:
                    values[name].add(value)
        kept = {name: frozenset(some) if len(some) <= MOST_VALUES else None for name, some in values.items()}
        return LabelIndex(dict(metrics), kept, {} if times is None else _spans(labels, times))

    def estimate(self, matchers: Sequence[Matcher]) -> Estimate | None:
        """How many rows the matchers may take, as far as this knows; None when no series can match."""
        metric_rows = self._metric_rows([matcher for matcher in matchers if matcher.name == METRIC_NAME])
        if not metric_rows:
            return None
        shares = [self._share(matcher) for matcher in matchers if matcher.name != METRIC_NAME]
        if not all(shares):
            return None
        return Estimate(metric_rows, max(1, round(metric_rows * prod(shares))))

    def encoded(self) -> bytes:
        """For the catalog."""
        values = {name: None if some is None else sorted(some) for name, some in self.values.items()}
        spans = {metric: (span.series, span.first_ms, span.last_ms) for metric, span in self.spans.items()}
        text = json.dumps([_VERSION, self.metrics, values, spans], separators=(",", ":"))
        return zlib.compress(text.encode(), 6)

    @staticmethod
    def decoded(data: bytes) -> "LabelIndex":
        """What `encoded` gave."""
        version, metrics, values, *more = json.loads(zlib.decompress(data))
        if version not in (_VERSION, _WITHOUT_SPANS):
            raise ValueError(f"the index has version {version}, and this release knows {_VERSION}")
        known = cast("dict[str, list[str] | None]", values)
        spans = cast("dict[str, tuple[int, int, int]]", more[0] if more else {})
        return LabelIndex(
            cast("dict[str, int]", metrics),
            {intern(name): None if some is None else frozenset(map(intern, some)) for name, some in known.items()},
            {metric: MetricSpan(*numbers) for metric, numbers in spans.items()},
        )

    def _metric_rows(self, matchers: Sequence[Matcher]) -> int:
        for matcher in matchers:
            if matcher.op is MatchOp.EQUAL:
                rows = self.metrics.get(matcher.value, 0)
                others = [other for other in matchers if other is not matcher]
                return rows if all(accepts(other, matcher.value) for other in others) else 0
        names = list(self.metrics)
        taken = [True] * len(names)
        for matcher in matchers:
            takes = takes_each(matcher, names, _no_hurry)
            taken = [before and bool(now) for before, now in zip(taken, takes, strict=True)]
        return sum(self.metrics[name] for name, is_taken in zip(names, taken, strict=True) if is_taken)

    def _share(self, matcher: Matcher) -> float:
        """Which share of the series may have a value that the matcher takes, if all values are as frequent: 0 only when
        none has. A series without the label has the empty value."""
        if accepts(matcher, ""):
            return 1.0
        values = self.values.get(matcher.name, frozenset())
        if values is None:
            return 1 / MOST_VALUES if matcher.op is MatchOp.EQUAL else 1.0
        if not values:
            return 0.0
        if matcher.op is MatchOp.EQUAL:
            return 1 / len(values) if matcher.value in values else 0.0
        return float(takes_each(matcher, list(values), _no_hurry).mean())


def _spans(labels: Sequence[Labels], times: Sequence[tuple[int, int]]) -> dict[str, MetricSpan]:
    spans: dict[str, MetricSpan] = {}
    for pairs, (first_ms, last_ms) in zip(labels, times, strict=True):
        metric = get(pairs, METRIC_NAME)
        known = spans.get(metric, MetricSpan(0, first_ms, last_ms))
        spans[metric] = MetricSpan(known.series + 1, min(known.first_ms, first_ms), max(known.last_ms, last_ms))
    return spans


def _no_hurry() -> None:
    """There are few values."""
