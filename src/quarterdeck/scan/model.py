"""What a scan asks for, and what one worker gets of it.

A task travels as JSON with a version in it. A worker that does not know the version says so, and guesses nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_bounds import MAX_SQL_CHARACTERS, check_sql
from quarterdeck.engines.sql_plan import PartChecks
from quarterdeck.stores.objects import ObjectRef

SCAN: Final = WorkKind("scan")
"""SQL over some of the files: what a worker does for a scan."""
TASK_VERSION: Final = 2


class Merging(StrEnum):
    """What is made of the parts' rows."""

    AUTO = "auto"
    """The answer that DuckDB alone would give over all files, or an error."""
    NONE = "none"
    """They are given as they are: the SQL ran over each part by itself."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one worker does: one SELECT over these files."""

    sql: str
    files: tuple[ObjectRef, ...] = ()
    """The view `files` in the SQL. Without files there is no such view."""
    ts_column: str | None = None
    """The column of the result that holds its time, if it has one: int64 in milliseconds, or a timestamp."""
    with_filename: bool = False
    """Whether `files` has a column `filename` that tells where a row is from."""
    max_rows: int | None = None
    """A larger result is an error, not a part of the truth."""
    path_columns: tuple[PathColumn, ...] = ()
    """That the paths of files give to their rows."""
    values: tuple[tuple[str | None, ...], ...] = ()
    """Of these columns, for each file."""
    part: PartChecks | None = None
    """What it is a part of, if the rows are to be merged."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What somebody asks for."""

    sql: str
    sources: tuple[str, ...] = ()
    """Files, folders and globs, local or in an object store."""
    ts_column: str | None = None
    with_filename: bool = False
    max_rows: int | None = None
    merging: Merging = Merging.AUTO

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise _unasked("it has no SQL")
        check_sql(self.sql)
        if self.max_rows is not None and self.max_rows < 1:
            raise _unasked(f"max_rows is {self.max_rows}, and must be at least 1")


class _WireFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    url: str
    size_bytes: int = Field(ge=0)
    version: str
    values: list[str | None]


class _WireColumn(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: Literal["DATE", "TIMESTAMP", "BIGINT", "VARCHAR"]


class _WirePart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    whole_sql: str
    scope_sql: str
    probe_sql: str | None
    names: list[str] | None
    not_columns: list[str]
    keeps_types: bool


class _WireTask(BaseModel):
    """Fields are added with a new version only: an old worker would pass over what it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[2]
    sql: str = Field(min_length=1, max_length=MAX_SQL_CHARACTERS)
    files: list[_WireFile]
    ts_column: str | None
    with_filename: bool
    max_rows: int | None = Field(ge=1)
    path_columns: list[_WireColumn]
    part: _WirePart | None


def encode_task(task: ScanTask) -> bytes:
    wire = _WireTask(
        version=TASK_VERSION,
        sql=task.sql,
        files=[
            _WireFile(url=file.url, size_bytes=file.size_bytes, version=file.version, values=list(values))
            for file, values in zip(task.files, _values_of(task), strict=True)
        ],
        ts_column=task.ts_column,
        with_filename=task.with_filename,
        max_rows=task.max_rows,
        path_columns=[_WireColumn.model_validate(asdict(column)) for column in task.path_columns],
        part=None if task.part is None else _wire_part(task.part),
    )
    return wire.model_dump_json().encode()


def decode_task(payload: bytes) -> ScanTask:
    """Raises `QuarterdeckError` for anything that is not a task, a task of an unknown version, or SQL that no engine
    should read. The sender may have checked this, or not."""
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
    part = None if wire.part is None else _read_part(wire.part)
    check_sql(wire.sql)
    if any(len(file.values) != len(wire.path_columns) for file in wire.files):
        raise QuarterdeckError(
            ErrorCode.PROTOCOL,
            "the scan was not run",
            "its task has other values than columns that paths give",
            "report it: its coordinator has made a task that makes no sense",
        )
    return ScanTask(
        sql=wire.sql,
        files=tuple(ObjectRef(file.url, file.size_bytes, file.version) for file in wire.files),
        ts_column=wire.ts_column,
        with_filename=wire.with_filename,
        max_rows=wire.max_rows,
        path_columns=tuple(PathColumn(column.name, column.kind) for column in wire.path_columns),
        values=tuple(tuple(file.values) for file in wire.files) if wire.path_columns else (),
        part=part,
    )


def _values_of(task: ScanTask) -> Sequence[tuple[str | None, ...]]:
    return task.values or [()] * len(task.files)


def _wire_part(part: PartChecks) -> _WirePart:
    return _WirePart(
        whole_sql=part.whole_sql,
        scope_sql=part.scope_sql,
        probe_sql=part.probe_sql,
        names=None if part.names is None else list(part.names),
        not_columns=list(part.not_columns),
        keeps_types=part.keeps_types,
    )


def _read_part(wire: _WirePart) -> PartChecks:
    for sql in (wire.whole_sql, wire.scope_sql, wire.probe_sql):
        if sql is not None:
            check_sql(sql)
    names = None if wire.names is None else tuple(wire.names)
    return PartChecks(wire.whole_sql, wire.scope_sql, wire.probe_sql, names, tuple(wire.not_columns), wire.keeps_types)


def _unasked(why: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the scan was not begun", why, "correct the request")
