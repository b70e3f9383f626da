"""Rows of a result as a table. Counts have a bar beside them, because people see a bar faster than a number.

Columns are in the order of the first rows' fields.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from quarterdeck.terminal.json_values import Record, is_number, json_text
from quarterdeck.terminal.stdout_console import StdoutConsole
from quarterdeck.terminal.telling import printable

_LONGEST_CELL: Final = 200
_SHORTEST_BAR: Final = 8
_LONGEST_BAR: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_DECIMALS: Final = 6
_DECIMAL: Final = re.compile(r"-?\d+\.\d+")


def print_table(console: StdoutConsole, rows: Sequence[Record], counts: str | None) -> None:
    table = _table(rows)
    if counts is not None and console.is_terminal and console.encoding.startswith("utf"):
        free = console.width - console.measure(table).maximum - 2
        numbers = [_count(row.get(counts)) for row in rows]
        if free >= _SHORTEST_BAR and len(rows) > 1 and max(numbers) > 0:
            width = min(free, _LONGEST_BAR)
            table = _table(rows, [bar(number, max(numbers), width) for number in numbers])
    console.print_whole(table)


def _table(rows: Sequence[Record], bars: Sequence[str] | None = None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        numbers = bool(values) and all(map(is_number, values))
        justify = "right" if numbers else "left"
        table.add_column(Text(printable(name)), justify=justify, no_wrap=numbers, overflow="fold")
    if bars is not None:
        table.add_column("", no_wrap=True, style="cyan")
    for number, row in enumerate(rows):
        cells = [_cell(row[name]) if name in row else Text() for name in names]
        table.add_row(*cells, *([] if bars is None else [Text(bars[number])]))
    return table


def bar(number: int, most: int, width: int) -> str:
    """
    >>> bar(8, 8, 2), bar(3, 8, 2), bar(1, 1000, 2), bar(0, 8, 2)
    ('██', '▊', '▏', '')
    """
    eighths = -(-number * width * 8 // most) if number > 0 else 0  # what is there is seen
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def shown_number(value: Any) -> str:
    """With commas between thousands, and no more digits behind the point than one reads.

    >>> from quarterdeck.terminal.json_values import Written
    >>> [shown_number(value) for value in (1234567, Written("1234.5"), Written("0.33333333333"), Written("1e-12"))]
    ['1,234,567', '1,234.5', '0.333333', '1e-12']
    """
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    if not _DECIMAL.fullmatch(text):
        return text
    rounded = round(Decimal(text), _DECIMALS)
    return f"{rounded:,f}".rstrip("0").rstrip(".") if rounded else text


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    if is_number(value):
        return Text(shown_number(value))
    text = printable(value if isinstance(value, str) else json_text(value))
    return Text(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
