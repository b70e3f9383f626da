"""What a search reports while it runs, wherever it runs: its progress, rows, and finally how it ended.

A value that is missing, or of another type, is an error: a missing figure must not look like a zero.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.error_documents import error_of

Document: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToldProgress:
    """How far it is."""

    total_bytes: int
    done_bytes: int
    chunks: int
    chunks_done: int
    matches: int
    workers: int
    workers_lost: int
    bad_lines: int


@dataclass(frozen=True, slots=True)
class ToldRows:
    """Records or rows of a result: NDJSON, each line with its end."""

    text: bytes


class ToldStatus(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    """All rows were given, and some of the files have problems."""
    ERROR = "error"
    """Rows that were given are not the whole answer."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be searched of a file."""

    url: str
    """Empty for all those that are not told one by one."""
    why: str
    lines: int
    """Lines that are no records; 0 when nothing of it was searched."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end. What ends without it was cut off."""

    status: ToldStatus
    error: QuarterdeckError | None
    """There is one with `ERROR`, and only then."""
    problems: tuple[Problem, ...]
    matches: int
    searched_bytes: int
    chunks: int
    workers: int
    """That searched any of it."""
    retried: int
    seconds: float


Event: TypeAlias = ToldProgress | ToldRows | Done


class EventSource(Protocol):
    """A search that somebody runs."""

    def pour(self, take: Callable[[Event], None]) -> None:
        """Gives all events away, one after the other; `Done` is the last, or an error is raised."""
        ...


def read_progress(document: Document) -> ToldProgress:
    return ToldProgress(
        int(document["bytes"]),
        int(document["bytes_done"]),
        int(document["chunks"]),
        int(document["chunks_done"]),
        int(document["matches"]),
        int(document["workers"]),
        int(document["workers_lost"]),
        int(document["bad_lines"]),
    )


def read_done(document: Document) -> Done:
    status = ToldStatus(document["status"])
    return Done(
        status,
        error_of(document["error"]) if status is ToldStatus.ERROR else None,
        tuple(Problem(str(one["url"]), str(one["why"]), int(one["lines"])) for one in document["problems"]),
        int(document["matches"]),
        int(document["bytes"]),
        int(document["chunks"]),
        len(document["workers"]),
        int(document["retried"]),
        float(document["seconds"]),
    )
