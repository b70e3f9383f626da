"""How a scan is divided: what each work is asked, and how the answer is made from the works' rows.

The SQL is planned in an engine's process, and only if there are several works: a single one runs the SQL as it was
written. SQL that needs all files together runs in one work as long as there are few files. How many are too many
depends only on their number and size.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_bounds import check_sql
from quarterdeck.engines.sql_plan import MergeOrder, PartChecks, Plan
from quarterdeck.engines.sql_way import Way
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.scan.model import Merging, ScanRequest, ScanTask
from quarterdeck.scan.path_columns import Values, path_columns
from quarterdeck.stores.objects import ObjectRef
from quarterdeck.stores.threads import in_thread

MIB: Final = 1024 * 1024
GROUP_BYTES: Final = 64 * MIB
"""Files of one work, together: large enough that the way there and back does not count, small enough that a worker lost
in the middle costs little."""
GROUP_FILES: Final = 32
TOGETHER_BYTES: Final = 512 * MIB
"""What one work reads of SQL that does not divide: with more, the crew is idle while one worker reads for minutes."""
TOGETHER_FILES: Final = 1_000
_REMEMBERED: Final = 128
_REMEMBERED_CHARACTERS: Final = 10_000


class Planner(Protocol):
    """`engines.contained_merge.ContainedMerger`. Blocking."""

    def plan(self, sql: str, stop: StopSignal) -> Plan: ...

    def kept_files(
        self, sql: str, columns: Sequence[PathColumn], values: Sequence[Values], stop: StopSignal
    ) -> list[int] | None: ...


@dataclass(frozen=True, slots=True)
class ScanFileRef:
    """A file, and what its path says."""

    ref: ObjectRef
    values: Values = ()


Group = tuple[ScanFileRef, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """Works, and how their rows become the answer."""

    groups: tuple[Group, ...]
    columns: tuple[PathColumn, ...]
    sql: str
    """What each work runs."""
    plan: Plan | None = None
    """Of the SQL, if the rows of the works are not the answer by themselves."""
    checks: PartChecks | None = None
    """For each work, if there are several that have to fit together."""

    @property
    def merge(self) -> MergeOrder | None:
        return None if self.plan is None else self.plan.merge

    def task(self, request: ScanRequest, group: Group) -> ScanTask:
        plan = self.plan
        of_answer = plan is None
        """What is said of the result holds for the work's rows only if these are the result."""
        return ScanTask(
            self.sql,
            tuple(file.ref for file in group),
            request.ts_column if of_answer else None,
            request.with_filename,
            request.max_rows if of_answer else None,
            self.columns,
            tuple(file.values for file in group) if self.columns else (),
            self.checks,
        )


class Divider:
    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        """Of the SQL that was asked last."""

    async def divided(self, request: ScanRequest, refs: Sequence[ObjectRef], files_per_work: int | None) -> Division:
        """Raises `QuarterdeckError` for SQL that does not divide, over more files than one work reads."""
        columns, values = path_columns([ref.url for ref in refs])
        files = [ScanFileRef(ref, row) for ref, row in zip(refs, values, strict=True)]
        groups = _groups(files, files_per_work)
        if len(groups) > 1 and columns:
            files = await self._kept(request, columns, files)
            groups = _groups(files, files_per_work)
        plain = Division(groups, columns, request.sql)
        if len(groups) <= 1 or request.merging is Merging.NONE:
            return plain
        plan = await self._planned(request.sql)
        match plan.way:
            case Way.ROWS:
                return Division(groups, columns, request.sql, checks=plan.checks)
            case Way.CONSTANT:
                return Division(groups[:1], columns, request.sql)
            case Way.TOGETHER:
                _insist_few(plan, files)
                return Division((tuple(files),), columns, request.sql)
            case Way.FIRST | Way.MERGED:
                return Division(groups, columns, plan.part_sql, plan, plan.checks)

    async def _kept(
        self, request: ScanRequest, columns: Sequence[PathColumn], files: list[ScanFileRef]
    ) -> list[ScanFileRef]:
        """Without files that cannot have rows; at least one, which has the columns."""
        token, values = CancelToken(), [file.values for file in files]
        kept = await in_thread(
            lambda: self._planner.kept_files(request.sql, columns, values, token), on_cancel=token.cancel
        )
        return files if kept is None else [files[place] for place in kept] or files[:1]

    async def _planned(self, sql: str) -> Plan:
        known = self._plans.get(sql)
        if known is not None:
            self._plans.move_to_end(sql)
            return known
        token = CancelToken()
        plan = await in_thread(lambda: _bounded(self._planner.plan(sql, token)), on_cancel=token.cancel)
        if len(sql) <= _REMEMBERED_CHARACTERS:
            self._plans[sql] = plan
            if len(self._plans) > _REMEMBERED:
                self._plans.popitem(last=False)
        return plan


def _bounded(plan: Plan) -> Plan:
    """What is divided may be longer than what it was: within the bounds of SQL it stays all the same."""
    texts = [plan.part_sql]
    if plan.checks is not None:
        texts += [plan.checks.scope_sql, plan.checks.probe_sql or ""]
    try:
        for text in texts:
            check_sql(text)
    except QuarterdeckError as error:
        return Plan(Way.TOGETHER, plan.part_sql, f"its parts would be too long or too deep ({error.why})")
    return plan


def _insist_few(plan: Plan, files: Sequence[ScanFileRef]) -> None:
    size_bytes = sum(file.ref.size_bytes for file in files)
    if size_bytes <= TOGETHER_BYTES and len(files) <= TOGETHER_FILES:
        return
    advice = "read fewer files, or write SQL that divides"
    if plan.advice is not None:
        part, merge = plan.advice
        command = f"quarterdeck scan {quote(part)} SOURCES --merge {quote(merge)}"
        advice += f", or fetch the rows that it needs and merge them: {command}"
    advice += ' (over HTTP "merge": "none" gives the rows of each work)'
    raise QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the SQL does not divide among works",
        f"{plan.why}: all files would be one work, which reads up to {TOGETHER_FILES:,} files and "
        f"{TOGETHER_BYTES // MIB:,} MiB, and there are {len(files):,} files of {size_bytes / MIB:,.0f} MiB",
        advice,
    )


def _groups(files: Sequence[ScanFileRef], files_per_work: int | None) -> tuple[Group, ...]:
    return tuple(grouped(files, files_per_work, lambda file: file.ref.size_bytes))


def grouped(
    files: Sequence[ScanFileRef], files_per_work: int | None, size_of: Callable[[ScanFileRef], int]
) -> Iterator[Group]:
    """Neighbours together, up to so many files, or up to a size."""
    group: list[ScanFileRef] = []
    size_bytes = 0
    for file in files:
        full = (
            len(group) >= files_per_work
            if files_per_work is not None
            else len(group) >= GROUP_FILES or (group and size_bytes + size_of(file) > GROUP_BYTES)
        )
        if full:
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(file)
        size_bytes += size_of(file)
    if group:
        yield tuple(group)
