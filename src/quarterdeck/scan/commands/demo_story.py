"""What the demo saw, and what the coordinator logged about it: when a worker was killed, when that was noticed, and
when other workers had its works."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from quarterdeck.terminal.documents import WorkerReport


@dataclass(frozen=True, slots=True)
class Kill:
    """One worker, taken out in the middle."""

    worker: WorkerReport
    """As it was just before."""
    pid: int
    at_s: float
    """By the wall clock, as the log has it."""
    delivered: int
    """Works whose results were there by then."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """By the coordinator's log, in seconds after the kill."""

    noticed_s: float
    again_s: tuple[float, ...]
    """For each work that was given to another worker."""

    @classmethod
    def of(cls, kill: Kill, log_file: Path) -> "Aftermath | None":
        """None when the log does not tell."""
        session_id = None
        noticed_s = None
        again_s: list[float] = []
        for record in _records(log_file):
            after_s = _seconds(record) - kill.at_s
            match record["event"]:
                case "worker registers" if record["worker_id"] == kill.worker.worker_id:
                    session_id = record["session_id"]
                case "session ended" if record["session_id"] == session_id and noticed_s is None:
                    noticed_s = after_s
                case "work assigned again" if after_s >= 0:
                    again_s.append(after_s)
                case _:
                    pass
        return None if noticed_s is None else cls(noticed_s, tuple(again_s))


def _records(log_file: Path) -> Iterator[dict[str, Any]]:
    for line in log_file.read_text().splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _seconds(record: dict[str, Any]) -> float:
    return datetime.fromisoformat(record["timestamp"]).timestamp()
