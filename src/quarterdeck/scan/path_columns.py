"""The columns that come from the paths of files: `date=2026-11-01/part.parquet` gives all rows of the file a date.

The rules are DuckDB's. Names stand before `=` in folders, and all files have the same names. A column has the first of
DATE, TIMESTAMP and BIGINT in which all its values are written, otherwise VARCHAR. That is decided over all files of a
scan, not over those of one work, and before values are unquoted as in URLs: `10%3A00` is text. `NULL` is a missing
value among numbers and dates, and a word in text. DuckDB takes some odd spellings for numbers and dates (`epoch`, `-0`,
blanks); then the column has text here.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import Final
from urllib.parse import unquote

from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_tree import folded
from quarterdeck.stores.locations import parse_location

Values = tuple[str | None, ...]

_NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
_NULL: Final = "null"
_PAIR: Final = re.compile(r"([^=?\n\\]+)=([^=?\n\\]*)")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME: Final = re.compile(r"[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{0,5}[1-9])?")
_BIGINT: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_BIGINT_MAX: Final = 2**63 - 1


def path_columns(urls: Sequence[str]) -> tuple[tuple[PathColumn, ...], list[Values]]:
    """The columns, and their values for each file; none when not all files have the same ones."""
    pairs = [_pairs(url) for url in urls]
    names = sorted(pairs[0]) if pairs else []
    if not names or any(sorted(each) != names for each in pairs):
        return (), [()] * len(urls)
    first = {folded(name): name for name in reversed(names)}  # of those that differ in capitals only
    columns = tuple(PathColumn(name, _kind({each[name] for each in pairs})) for name in sorted(first.values()))
    return columns, [tuple(_value(each[column.name], column.kind) for column in columns) for each in pairs]


def _pairs(url: str) -> dict[str, str]:
    """As they are written."""
    found: dict[str, str] = {}
    for folder in parse_location(url).key.split("/")[:-1]:
        pair = _PAIR.fullmatch(folder)
        if pair is not None:
            found.setdefault(pair[1], pair[2])
    return found


def _value(written: str, kind: str) -> str | None:
    if written == _NOTHING or (kind != "VARCHAR" and folded(written) == _NULL):
        return None
    return unquote(written)


def _kind(values: set[str]) -> str:
    kinds = {_kind_of(value) for value in values if value != _NOTHING and folded(value) != _NULL}
    return kinds.pop() if len(kinds) == 1 else "VARCHAR"


def _kind_of(value: str) -> str:
    day = _DATE.match(value)
    if day is not None:
        try:
            date(int(day[1]), int(day[2]), int(day[3]))
        except ValueError:  # no such day
            return "VARCHAR"
        rest = value[day.end() :]
        return "DATE" if not rest else "TIMESTAMP" if _TIME.fullmatch(rest) else "VARCHAR"
    if _BIGINT.fullmatch(value) and -_BIGINT_MAX - 1 <= int(value) <= _BIGINT_MAX:
        return "BIGINT"
    return "VARCHAR"
