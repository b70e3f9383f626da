"""The nouns of stored metrics."""

from dataclasses import dataclass
from typing import Final

from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.crew.query_log import QueryKind
from quarterdeck.stores.objects import ObjectRef

LEAF: Final = WorkKind("leaf")
"""One leaf of a query over some segments: what a worker does for PromQL."""
METRICS_QUERY: Final = QueryKind("metrics")
"""What a query of these is called for people."""
MOST_SHARDS: Final = 16
"""The series of a time range are stored in at most so many parts, unless an import is told another number: as many
workers can share one leaf, and as many files there are for each time range. The number of a segment's parts is a power
of two and stands beside it in the catalog; segments with different numbers are read side by side."""


@dataclass(frozen=True, slots=True)
class Segment:
    """An immutable Parquet file of samples, as the catalog knows it."""

    segment_id: int
    """Rises: of two samples of one series and time the one of the later segment counts."""
    shard: int
    """Which part of all series it has: those whose labels' digest, divided by `shard_count`, leaves this."""
    shard_count: int
    object: ObjectRef
    checksum: str
    min_ts_ms: int
    max_ts_ms: int
    row_count: int
    series_count: int
    label_index: bytes
    """Which metrics and label values there are, encoded; see `segments.label_index`."""


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """What a worker is told of a segment."""

    segment_id: int
    object: ObjectRef
    checksum: str
    min_ts_ms: int
    max_ts_ms: int
    shard_count: int


@dataclass(frozen=True, slots=True)
class Part:
    """The series whose labels' digest, divided by `count`, leaves `residue`: what one of `count` works is about."""

    residue: int = 0
    count: int = 1

    def is_cut_from(self, shard_count: int) -> bool:
        """Whether a segment with so many shards has series of other parts as well."""
        return shard_count % self.count != 0


@dataclass(frozen=True, slots=True)
class MetricMetadata:
    """What a file says about a metric; empty where it says nothing."""

    metric: str
    """As the file names it: in OpenMetrics that is the family, without `_total`."""
    type: str = "unknown"
    """counter, gauge, histogram, gaugehistogram, summary, info, stateset or unknown."""
    help: str = ""
    unit: str = ""
