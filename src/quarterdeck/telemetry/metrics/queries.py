"""What users get: how soon, and how often an error instead."""

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.telemetry.metrics.buckets import QUERY_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label


class QueryMetrics:
    """All of these are of one query: give them an exemplar without a work."""

    def __init__(self, families: Families) -> None:
        self.latency = families.histogram_by(
            "query_seconds",
            "From a query's arrival to its end, by how it ended. Use it for p50, p95 and p99.",
            Audience.SERVICE_LEVEL,
            QUERY_S,
            label("outcome", Outcome),
        )
        """Observed at the end of every query."""

        self.first_result = families.histogram(
            "first_result_seconds",
            "From a query's arrival until its first result is sent.",
            Audience.SERVICE_LEVEL,
            QUERY_S,
        )
        """Observed once for a query that had a result."""

        self.errors = families.counter_by(
            "query_errors_total",
            "Queries that ended with an error, by code.",
            Audience.SERVICE_LEVEL,
            label("reason", ErrorCode),
        )
        """Raised once for a query that failed or was canceled; `error_code` reads a code from the wire."""
