"""What is asked for, and what one worker gets of it.

A task travels as JSON with a version in it: a worker that does not know the version says so, and guesses nothing.
"""

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.sql_bounds import MAX_SQL_CHARACTERS, check_sql
from quarterdeck.stores.objects import ObjectRef

TASK_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one worker does: one SELECT over these files."""

    sql: str
    files: tuple[ObjectRef, ...] = ()
    """The view `files` in the SQL; with none of them there is no such view."""
    ts_column: str | None = None
    """The column of the result that holds its time, if it has one: int64 in milliseconds, or a timestamp."""
    with_filename: bool = False
    """Whether `files` has a column `filename` that tells where a row is from."""
    max_rows: int | None = None
    """A larger result is an error, not a part of the truth."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What somebody asks for."""

    sql: str
    sources: tuple[str, ...] = ()
    """Files, folders and globs, local or in an object store."""
    ts_column: str | None = None
    with_filename: bool = False
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise _unasked("it has no SQL")
        check_sql(self.sql)
        if self.max_rows is not None and self.max_rows < 1:
            raise _unasked(f"max_rows is {self.max_rows}, and must be at least 1")

    def task(self, files: tuple[ObjectRef, ...]) -> ScanTask:
        """The task over files that were found for the sources."""
        return ScanTask(self.sql, files, self.ts_column, self.with_filename, self.max_rows)


class _WireFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    url: str
    size_bytes: int = Field(ge=0)
    version: str


class _WireTask(BaseModel):
    """Fields are added with a new version only: an old worker would pass over what it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1]
    sql: str = Field(min_length=1, max_length=MAX_SQL_CHARACTERS)
    files: list[_WireFile]
    ts_column: str | None
    with_filename: bool
    max_rows: int | None = Field(ge=1)


def encode_task(task: ScanTask) -> bytes:
    wire = _WireTask(
        version=TASK_VERSION,
        sql=task.sql,
        files=[_WireFile(url=file.url, size_bytes=file.size_bytes, version=file.version) for file in task.files],
        ts_column=task.ts_column,
        with_filename=task.with_filename,
        max_rows=task.max_rows,
    )
    return wire.model_dump_json().encode()


def decode_task(payload: bytes) -> ScanTask:
    """Raises `QuarterdeckError` for what is no task, one of a version that is not known here, or SQL that no engine
    should read: who sent it may have looked, or not."""
    try:
        wire = _WireTask.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "all of it"
        raise QuarterdeckError(
            ErrorCode.PROTOCOL,
            "the scan was not run",
            f"its task cannot be read ({place}: {first['msg']})",
            f"run coordinator and workers of one release; this one knows tasks of version {TASK_VERSION}",
        ) from error
    check_sql(wire.sql)
    return ScanTask(
        sql=wire.sql,
        files=tuple(ObjectRef(file.url, file.size_bytes, file.version) for file in wire.files),
        ts_column=wire.ts_column,
        with_filename=wire.with_filename,
        max_rows=wire.max_rows,
    )


def _unasked(why: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the scan was not begun", why, "correct the request")
