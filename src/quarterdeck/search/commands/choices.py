"""What options of `search` may be. Nothing heavy may be imported here."""

from enum import StrEnum


class SearchFormat(StrEnum):
    """How `search` shows rows."""

    AUTO = "auto"
    LINES = "lines"
    TABLE = "table"
    NDJSON = "ndjson"
    CSV = "csv"


class SearchOrder(StrEnum):
    """In which order records come that no stage has ordered."""

    TIME = "time"
    INPUT = "input"
    NONE = "none"
