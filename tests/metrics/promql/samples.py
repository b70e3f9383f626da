"""Samples for tests, in a few words."""

from collections.abc import Mapping, Sequence

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.memory import MemorySource, Series


def source(series: Mapping[str, Sequence[float]], interval_ms: int = 60_000) -> MemorySource:
    """Series by their names, or by `name a=1 b=2`, with a value every interval from 0 on."""
    return MemorySource.of(
        Series(
            labels(name),
            np.arange(len(values), dtype=np.int64) * interval_ms,
            np.array(values, np.float64),
        )
        for name, values in series.items()
    )


def labels(text: str) -> lb.Labels:
    """The labels that `name a=1 b=2` says."""
    name, *pairs = text.split()
    return lb.from_mapping({lb.METRIC_NAME: name, **dict(pair.split("=") for pair in pairs)})


def many(count: int, steps: int = 61, name: str = "m") -> MemorySource:
    """Many counters, each rising by its number a minute."""
    return source({f"{name} i={i} job={i % 3}": [float(i * step) for step in range(steps)] for i in range(count)})
