"""What options of `scan` may be. Nothing heavy may be imported here."""

from enum import StrEnum


class RowFormat(StrEnum):
    """How `scan` shows rows."""

    TABLE = "table"
    CSV = "csv"
    NDJSON = "ndjson"
