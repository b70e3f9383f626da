"""Families: what a file says about `latency_seconds` is about `latency_seconds_bucket`, too."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quarterdeck.metrics.model import MetricMetadata

_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "counter": ("_total", "_created"),
        "histogram": ("_bucket", "_count", "_sum", "_created"),
        "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
        "summary": ("_count", "_sum", "_created"),
        "info": ("_info",),
    }
)
"""By which endings the metrics of a family differ from its name."""


def metadata_of(metric: str, known: Mapping[str, MetricMetadata]) -> MetricMetadata:
    """What is known about a metric, by its own name or by that of its family; of an unknown one, that it is unknown.

    >>> metadata_of("hits_total", {"hits": MetricMetadata("hits", "counter", "Hits.")})
    MetricMetadata(metric='hits_total', type='counter', help='Hits.', unit='')
    >>> metadata_of("hits_sum", {"hits": MetricMetadata("hits", "counter", "Hits.")}).type
    'unknown'
    """
    if metric in known:
        return known[metric]
    family, _, ending = metric.rpartition("_")
    found = known.get(family)
    if found is None or f"_{ending}" not in _SUFFIXES.get(found.type, ()):
        return MetricMetadata(metric)
    return MetricMetadata(metric, found.type, found.help, found.unit)
