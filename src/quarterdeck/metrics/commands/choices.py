"""What options of the commands over metrics may be. Nothing heavy may be imported here."""

from enum import StrEnum


class MetricsFormat(StrEnum):
    """What `import` reads."""

    OPENMETRICS = "openmetrics"
    PROMETHEUS = "prometheus"
    PARQUET = "parquet"


class TimestampUnit(StrEnum):
    """Of times that are plain numbers."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class QueryFormat(StrEnum):
    """How `query` shows an answer."""

    CHART = "chart"
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class ListFormat(StrEnum):
    """How `metrics` shows its list."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class PartialChoice(StrEnum):
    """What `query` makes of samples that cannot be read."""

    ALLOW = "allow"
    DENY = "deny"
