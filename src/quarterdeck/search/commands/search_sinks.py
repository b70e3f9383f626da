"""Where the rows of a search go: lines on the screen, a table, CSV, or NDJSON on stdout or in a file.

A sink takes NDJSON in whole lines. `finish` is called only when the answer is complete: anything that looks like a
whole answer appears there, not before. `close` is always called.
"""

import csv
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.commands.record_lines import RecordPainter
from quarterdeck.stores.disk_full import is_full, no_room
from quarterdeck.terminal.json_values import Record, json_text, read_record
from quarterdeck.terminal.telling import counted

_TABLE_ROWS: Final = 50
_SPOOL_BYTES: Final = 32 * 1024 * 1024
_OBEYED: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
"""What a terminal obeys, in UTF-8, apart from line feeds and tabs."""

Out: TypeAlias = Callable[[bytes], None]
"""Writes at once."""


class RowSink(Protocol):
    has_shown: bool
    """Whether somebody saw rows already."""

    def write(self, text: bytes) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class NdjsonSink:
    """The rows as they came."""

    def __init__(self, out: Out) -> None:
        self.has_shown = False
        self._out = out

    def write(self, text: bytes) -> None:
        self.has_shown = True
        self._out(text)

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class FileSink:
    """The rows as they came, in a file that is there when they are all."""

    def __init__(self, path: Path) -> None:
        self.has_shown = False
        self._path = path
        self._replaces = path.is_file() or not path.exists()
        self._part = path.with_name(f".{path.name}.part") if self._replaces else path  # a pipe or a device stays
        try:
            self._file: BinaryIO = self._part.open("wb")
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, text: bytes) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        try:
            self._file.close()
            if self._replaces:
                self._part.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self) -> None:
        with suppress(OSError):  # it was told when it was written to
            self._file.close()
        if self._replaces:
            self._part.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> QuarterdeckError:
        if is_full(error):
            return no_room(f"{self._path} was not written", self._path, error)
        return QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{self._path} was not written",
            error.strerror or str(error),
            "name a file in a folder that can be written to, with enough room",
        )


class LinesSink:
    """A line for each record, for people."""

    def __init__(self, out: Out, painter: RecordPainter, encoding: str) -> None:
        self.has_shown = False
        self._out = out
        self._painter = painter
        self._encoding = encoding

    def write(self, text: bytes) -> None:
        self.has_shown = True
        lines = "".join(f"{self._painter.paint(line)}\n" for line in _lines(text))
        self._out(lines.encode(self._encoding, "replace"))

    def finish(self) -> None:
        if self._painter.cut:
            cut = counted(self._painter.cut, "long record was", "long records were")
            sys.stderr.write(f"{cut} cut; --format ndjson shows all\n")

    def close(self) -> None:
        pass


class TableSink:
    """The first rows as a table, and how many more there were."""

    def __init__(self, counts: str | None) -> None:
        self.has_shown = False
        self._counts = counts
        self._kept: list[Record] = []
        self._rows = 0

    def write(self, text: bytes) -> None:
        self._rows += text.count(b"\n")
        if len(self._kept) < _TABLE_ROWS:
            for line in _lines(text):
                record = read_record(line)
                self._kept.append({"": line} if record is None else record)
            del self._kept[_TABLE_ROWS:]

    def finish(self) -> None:
        from quarterdeck.search.commands.search_table import print_table  # noqa: PLC0415 - loaded when it is needed
        from quarterdeck.terminal.stdout_console import StdoutConsole  # noqa: PLC0415

        console = StdoutConsole()
        if not self._kept:
            console.print("no rows")
            return
        print_table(console, self._kept, self._counts)
        more = self._rows - len(self._kept)
        if more > 0:
            console.print(f"… and {more:,} more rows; --format csv has all", style="yellow")

    def close(self) -> None:
        pass


class CsvSink:
    """All rows under the fields of all rows, which are known at the end; until then they wait on the disk."""

    def __init__(self, out: Out) -> None:
        self.has_shown = False
        self._out = out
        self._waiting: Any = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed by `close`
        self._names: dict[str, None] = {}

    def write(self, text: bytes) -> None:
        for line in _lines(text):
            self._names.update(dict.fromkeys(_members(line)))
        self._waiting.write(text)

    def finish(self) -> None:
        if not self._names:
            return
        self._waiting.seek(0)
        page = io.StringIO()
        writer = csv.writer(page, lineterminator="\n")
        writer.writerow(self._names)
        for line in self._waiting:
            record = _members(line.decode(errors="replace"))
            writer.writerow([_csv_cell(record.get(name)) for name in self._names])
            if page.tell() >= 65536:
                self._turn(page)
        self._turn(page)

    def close(self) -> None:
        self._waiting.close()

    def _turn(self, page: io.StringIO) -> None:
        self._out(page.getvalue().encode())
        page.seek(0)
        page.truncate()


def harmless(out: Out) -> Out:
    """For a terminal: what it would obey is shown as JSON would write it."""
    return lambda text: out(_OBEYED.sub(_escaped, text))


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % found[0][-1]


def _lines(text: bytes) -> Iterator[str]:
    return (line for line in text.decode(errors="replace").split("\n") if line)


def _members(line: str) -> Record:
    record = read_record(line)
    return {"": line} if record is None else record


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)
