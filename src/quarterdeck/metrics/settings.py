"""The settings of metrics in a coordinator and in a worker."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from quarterdeck.config.conflicts import Conflict, at_most
from quarterdeck.config.section import Section, computed_in
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import Bytes, BytesOrZero, Count, Place, Seconds, SecondsOrZero
from quarterdeck.config.worker import WorkerSettings


def _segments(coordinator: Mapping[str, Any]) -> str:
    return str(coordinator["data_dir"].parent / "lake" / "segments")


def _leaf_memory_bytes(worker: Mapping[str, Any]) -> int:
    return max(1, worker["memory_bytes"] // (2 * worker["slots"]))


def _sample_memory_bytes(worker: Mapping[str, Any]) -> int:
    return worker["memory_bytes"] // 8


class MetricsSettings(Section):
    """In a coordinator."""

    section: ClassVar[str] = "metrics"
    former: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "lake_url",
            "orphan_grace_s",
            "queries_at_once",
            "query_timeout_s",
            "query_memory_bytes",
            "query_max_samples",
            "query_max_series",
            "query_lookback_s",
            "query_work_rows",
        )
    }

    lake_url: Place = computed_in(_segments, "`lake/segments` beside `data_dir`")
    """The folder or bucket with the segments of metrics, as workers also see it: a path, or `s3://bucket/folder`. If
    imports wrote to another one, queries that need those segments fail."""
    orphan_grace_s: SecondsOrZero = 86400.0
    """Seconds after which a coordinator removes what is in the lake and nothing refers to: what killed imports leave
    behind. An import that takes longer than half of this fails. Too high keeps such files on the disk; 0 removes
    nothing."""
    queries_at_once: Count = 20
    """PromQL queries that run at the same time; the others wait in line. When these places are taken, light queries
    have as many of their own. Too low leaves workers idle; too high lets queries compete for memory: each may take
    `query_memory_bytes`, and all together what `memory_bytes` leaves."""
    query_timeout_s: Seconds = 120.0
    """Seconds that a PromQL query may take, including the wait in line; a query that asks for more gets this. Too low
    fails long queries; too high lets abandoned ones hold places."""
    query_memory_bytes: Bytes = 1024**3
    """Memory of one PromQL query in the coordinator, and of each of its works in a worker. A query that needs more
    fails with a message that says so. Too low refuses useful queries; too high lets the kernel kill the process."""
    query_max_samples: Count = 200_000_000
    """Samples that one work of a PromQL query may read. Too low refuses useful queries; too high lets one query keep
    the crew busy for long."""
    query_max_series: Count = 1_000_000
    """Series that one work of a PromQL query may read, or that an answer about series may have."""
    query_lookback_s: Seconds = 300.0
    """How old, in seconds, the newest sample of a series may be to count as its value. Too low shows gaps between
    samples that come seldom; too high goes on showing series that have ended."""
    query_work_rows: Count = 500_000
    """About how many samples one work of a PromQL query reads; a query over more is divided among workers. Too low
    makes works that spend more time on the way than on computing; too high leaves workers idle."""

    def default_roots(self) -> tuple[str, ...]:
        return (self.lake_url,)


class LeafSettings(Section):
    """In a worker."""

    section: ClassVar[str] = "metrics"
    former: ClassVar[Mapping[str, str]] = {
        name: name for name in ("leaf_threads", "leaf_memory_bytes", "sample_memory_bytes")
    }

    leaf_threads: Count = 1
    """Threads of one PromQL work. `slots` works run at once already, so more threads help only a worker with few and
    large works."""
    leaf_memory_bytes: Bytes = computed_in(_leaf_memory_bytes, "half of `memory_bytes`, divided by `slots`")
    """Memory of one PromQL work; a work that needs more fails. Too high lets `slots` works together use more than there
    is, and then the largest is ended."""
    sample_memory_bytes: BytesOrZero = computed_in(_sample_memory_bytes, "an eighth of `memory_bytes`")
    """Memory for samples that are kept for the next query. Too low reads and decodes the same files for every query;
    too high leaves works too little."""

    def conflicts(self, process: ProcessSettings) -> Iterator[Conflict]:
        assert isinstance(process, WorkerSettings)
        whole = ("memory_bytes", process.memory_bytes)
        yield from at_most("metrics.leaf_memory_bytes", self.leaf_memory_bytes, *whole)
        yield from at_most("metrics.sample_memory_bytes", self.sample_memory_bytes, *whole)
