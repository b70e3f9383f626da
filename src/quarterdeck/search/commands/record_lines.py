"""A record as one line for a person: its time, its level in colour, its message, and then everything else it has.

A line is cut where it would fill the screen. The cut lines are counted, so that their number can be shown.
"""

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from quarterdeck.core.time_texts import MAX_CALENDAR_US, MIN_CALENDAR_US, show_time_us
from quarterdeck.search.model import TIME_FIELDS
from quarterdeck.terminal.json_values import Record, is_number, read_record, shown_value
from quarterdeck.terminal.telling import printable

_LEVEL_FIELDS: Final = ("level", "severity", "lvl", "loglevel", "log.level")
_MESSAGE_FIELDS: Final = ("message", "msg", "log", "body")
_MOST_LINES: Final = 4
"""Of the screen, for one record."""

_PLAIN: Final = ""
_DIM: Final = "2"
_KEY: Final = "36"
_SEVERE: Final = "1;31"
_LEVELS: Final = {
    **dict.fromkeys(("error", "err", "fatal", "critical", "crit", "panic", "alert", "emerg", "emergency"), _SEVERE),
    **dict.fromkeys(("warn", "warning"), "33"),
    **dict.fromkeys(("info", "notice", "information"), "32"),
    **dict.fromkeys(("debug", "trace", "verbose"), _DIM),
}
_LEVEL_WIDTH: Final = 5

# How a number is meant as a time, by its size; as the language has it.
_UNITS: Final = ((1e11, 1), (1e14, 1_000), (1e17, 1_000_000))
_NANOSECONDS: Final = 1_000_000_000

_Piece = tuple[str, str]
"""A style and a text."""


class RecordPainter:
    def __init__(self, *, columns: int | None, colours: bool, time_field: str | None = None) -> None:
        """Without `columns` nothing is cut."""
        self._most = sys.maxsize if columns is None else columns * _MOST_LINES
        self._colours = colours
        self._time_fields = TIME_FIELDS if time_field is None else (time_field,)
        self.cut = 0
        """Records that were longer than there is room for."""

    def paint(self, line: str) -> str:
        record = read_record(line)
        pieces = [(_PLAIN, printable(line))] if record is None else self._pieces(record)
        return "".join(self._painted(pieces))

    def _pieces(self, record: Record) -> Iterator[_Piece]:
        separator = ""
        time_field = _first(record, self._time_fields)
        level_field = _first(record, _LEVEL_FIELDS)
        message_field = _first(record, _MESSAGE_FIELDS)
        if time_field is not None:
            yield _DIM, shown_time(record[time_field])
            separator = " "
        if level_field is not None:
            level = str(record[level_field])
            yield _PLAIN, separator
            yield _LEVELS.get(level.lower(), _PLAIN), printable(level).ljust(_LEVEL_WIDTH)
            separator = " "
        if message_field is not None:
            yield _PLAIN, separator + printable(str(record[message_field]))
            separator = "  "
        for name, value in record.items():
            if name not in (time_field, level_field, message_field):
                yield _KEY, f"{separator}{printable(name)}="
                yield _PLAIN, shown_value(value)
                separator = " "

    def _painted(self, pieces: Iterable[_Piece]) -> Iterator[str]:
        room = self._most
        for style, text in pieces:
            if len(text) > room:
                yield self._styled(style, text[: room - 1]) + self._styled(_DIM, "…")
                self.cut += 1
                return
            room -= len(text)
            yield self._styled(style, text)

    def _styled(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and self._colours else text


def shown_time(value: Any) -> str:
    """Numbers as the moment that they mean, all others as they are.

    >>> [shown_time(value) for value in (1700000000, 1700000000123, "2026-01-31 12:00")]
    ['2023-11-14T22:13:20Z', '2023-11-14T22:13:20.123Z', '2026-01-31 12:00']
    >>> shown_time(10**20), shown_time(1700000000123456789)
    ('5138-11-16T09:46:40Z', '2023-11-14T22:13:20.123457Z')
    """
    if not is_number(value):
        return printable(value) if isinstance(value, str) else shown_value(value)
    number = float(value)
    unit = next((unit for most, unit in _UNITS if abs(number) < most), _NANOSECONDS)
    if not math.isfinite(number):
        return str(value)
    at_us = round(number / unit * 1_000_000)
    if not MIN_CALENDAR_US <= at_us <= MAX_CALENDAR_US:
        return str(value)
    whole = isinstance(value, int) and not value % unit
    return show_time_us(at_us, 0 if whole else 3 if unit <= 1_000 else 6)


def _first(record: Record, names: Iterable[str]) -> str | None:
    """The first of the fields that the record has something to show in."""
    return next((name for name in names if _is_shown(record.get(name))), None)


def _is_shown(value: Any) -> bool:
    return (isinstance(value, str) and value != "") or is_number(value)
