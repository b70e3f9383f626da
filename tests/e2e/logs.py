"""What a process wrote: its log, record by record, and whatever is no record."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

Record: TypeAlias = dict[str, Any]

_TAIL_LINES = 40
_BEGINNING = '{"timestamp"'


@dataclass(frozen=True, slots=True)
class Log:
    path: Path

    def records(self) -> list[Record]:
        return [record for line in self._lines() if (record := _record(line)) is not None]

    def find(self, event: str, **fields: object) -> list[Record]:
        """The records of an event that have these fields, in their order."""
        return [
            record
            for record in self.records()
            if record["event"] == event and all(record.get(name) == value for name, value in fields.items())
        ]

    def complaints(self) -> list[str]:
        """What should never be there: errors, tracebacks, and words of libraries that are no record."""
        return [line for line in self._lines() if _is_complaint(line)]

    def tail(self) -> str:
        return "\n".join(self._lines()[-_TAIL_LINES:])

    def _lines(self) -> list[str]:
        text = self.path.read_text(errors="replace") if self.path.exists() else ""
        whole, _, _ = text.rpartition("\n")  # the last line may still be on its way
        return [line for line in whole.split("\n") if line]


def at_s(record: Record) -> float:
    """When it was written, in seconds since 1970, as `time.time` has it."""
    return datetime.fromisoformat(record["timestamp"]).timestamp()


def _is_complaint(line: str) -> bool:
    record = _record(line)
    if record is None:
        return not line.startswith(_BEGINNING)  # a process that is killed may leave half a record
    return record["level"] == "error"


def _record(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return cast("Record", record) if isinstance(record, dict) and {"event", "level"} <= record.keys() else None
