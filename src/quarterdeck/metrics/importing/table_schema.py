"""Whether a table has the columns that a mapping names, with types that can be what the mapping says they are."""

from typing import Any

from quarterdeck.metrics.importing.column_mapping import UNIT_OPTION, ColumnMapping, ColumnOption
from quarterdeck.metrics.importing.column_numbers import is_number, time_fault
from quarterdeck.metrics.importing.errors import Named, bad_file
from quarterdeck.metrics.importing.label_columns import is_label, is_map, is_text


def check_schema(path: Named, schema: Any, mapping: ColumnMapping) -> None:
    """Raises `SourceError` for the first column that is not there, or cannot be what it should be."""
    names: list[str] = schema.names
    for column, option in mapping.needed():
        if names.count(column) != 1:
            missing = f"there are several columns {column!r}" if column in names else f"there is no column {column!r}"
            raise bad_file(
                path,
                f"{missing}; the columns are {', '.join(names) or 'none'}",
                f"say which column it is with {option}",
            )
        kind = schema.field(column).type
        fault = _fault(kind, option, mapping)
        if fault is not None:
            unit = f" or the unit with {UNIT_OPTION}" if option in (ColumnOption.TIMESTAMP, ColumnOption.START) else ""
            raise bad_file(
                path,
                f"column {column!r} is {kind}, and {fault}",
                f"name another column with {option}{unit}, or write this one with another type",
            )


def _fault(kind: Any, option: ColumnOption, mapping: ColumnMapping) -> str | None:
    """What a column must be; None if it is."""
    match option:
        case ColumnOption.TIMESTAMP | ColumnOption.START:
            return time_fault(kind, mapping.timestamp_unit)
        case ColumnOption.VALUE:
            return None if is_number(kind) else "a value is a number"
        case ColumnOption.METRIC:
            return None if is_text(kind) else "a metric's name is text"
        case ColumnOption.LABELS:
            return None if is_text(kind) or is_map(kind) else "labels are a map<string, string>, or JSON as text"
        case ColumnOption.LABEL:
            return None if is_label(kind) else "a label is text, a whole number, or true or false"
