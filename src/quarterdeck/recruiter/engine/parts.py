"""What a chunk's answer is made of, as SQL: the query over some of its files, and one answer out of several.

Every row of the query says beside the answer what it stands for: `mark` is 0 for an answer, 1 for lines that are no
records, and 2 for records that match and are not part of it; `counted` is how many, and `file` where the bad lines are.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.recruiter.engine.aggregates import group_states, merged_states, state_columns
from quarterdeck.recruiter.engine.conditions import Records, condition_sql
from quarterdeck.recruiter.engine.fields import FieldColumns
from quarterdeck.recruiter.engine.ordering import OrderKey
from quarterdeck.recruiter.engine.plan import Part, Plan
from quarterdeck.recruiter.engine.sql import Parameters, Sql
from quarterdeck.recruiter.engine.stages import CANONICAL, Lines, cut_line, field_names, with_stages
from quarterdeck.recruiter.engine.values import Value
from quarterdeck.recruiter.language.ast import And, Condition, Head, Summarize, Tail, TimePoint, TimeRange
from quarterdeck.recruiter.language.fields import stage_fields
from quarterdeck.recruiter.model import Order, SearchSpec

_arrow: Final[Any] = pyarrow

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""

MARKS: Final = ("mark", "counted", "file")
"""The columns that are not part of the answer."""
_MARKED: Final = ["mark", "file"]
_UNMARKED: Final = {"mark": "0::TINYINT AS mark", "file": "NULL::VARCHAR AS file"}


class SearchedRecords(Records, Protocol):
    """Records that can be searched."""

    @property
    def is_read_twice(self) -> bool:
        """Whether reading them again is better than keeping what was found."""
        ...

    @property
    def marked(self) -> list[str]:
        """Which of `mark` and `file` are not the same for all rows."""
        ...

    def having_sql(self, name: str) -> Sql:
        """Something for each record that has a field."""
        ...

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """Those that fulfil a condition, and the lines that are none: a query with the columns `mark` (1 for a bad
        line, otherwise 0), `file`, those asked for of `line` and `time_us`, and columns for the fields."""
        ...


def chunk_sql(plan: Plan, spec: SearchSpec, records: SearchedRecords, parameters: Parameters, base: int) -> Sql:
    """The query over some files. `base` is the number of rows that were found before them."""
    condition = condition_sql(_whole_condition(plan, spec), records, spec.now_us)
    timed = plan.order is Order.TIME
    if plan.part is Part.GROUPS:
        assert isinstance(plan.stage, Summarize)
        names = [field.name for field in stage_fields(plan.stage)]
        rows, values = _fields(plan, records, condition, names, parameters)
        marked = _MARKED if plan.cuts else records.marked
        if marked == ["mark"] and not names and not plan.stage.by:
            return _counts(plan.stage, rows)
        states = group_states(plan.stage, rows, values, marked)
        others = "".join(f", {constant}" for name, constant in _UNMARKED.items() if name not in marked)
        names_of_marks = ", ".join(MARKS)
        rows = f"SELECT *, n AS counted{others} FROM ({states})"
        return f"SELECT {names_of_marks}, * EXCLUDE ({names_of_marks}) FROM ({rows})"
    rows = _lines(plan, records, condition, parameters, timed=timed and plan.part is not Part.FIELDS)
    if plan.part is Part.FIELDS:
        names_sql = field_names(rows, _MARKED)
        return f"""SELECT CASE WHEN mark = 0 AND name IS NULL THEN 2 ELSE mark END::TINYINT AS mark,
            CASE WHEN name IS NULL THEN n ELSE 0 END AS counted, file, name, n
            FROM (SELECT mark, file, name, count(*) AS n FROM ({names_sql}) GROUP BY mark, file, name)"""
    found = f"""SELECT mark, 1::BIGINT AS counted, file, {"time_us" if timed else "NULL::BIGINT AS time_us"},
        {base} + row_number() OVER () AS pos, line FROM ({rows})"""
    if plan.part is Part.RECORDS or plan.first is not None:
        return found
    if plan.part is Part.DISTINCT:
        distinct = _distinct(f"SELECT *, 1::BIGINT AS n FROM ({found})", plan.order, _MARKED)
        return f"SELECT mark, n AS counted, file, * EXCLUDE (mark, file) FROM ({distinct})"
    some = _some(plan, "SELECT * FROM found WHERE mark = 0", parameters)
    kept = "NOT MATERIALIZED" if records.is_read_twice else "MATERIALIZED"
    return f"""WITH found AS {kept} ({found})
        SELECT 0::TINYINT AS mark, 0::BIGINT AS counted, NULL::VARCHAR AS file, * FROM ({some})
        UNION ALL SELECT CASE WHEN mark = 0 THEN 2 ELSE mark END::TINYINT, count(*), file, NULL, NULL, NULL
        FROM found GROUP BY mark, file"""


def reduced_sql(plan: Plan, rows: Sql, parameters: Parameters) -> Sql | None:
    """One answer of a chunk out of several, in their order; None when they are it together."""
    match plan.part:
        case Part.RECORDS:
            return None
        case Part.SOME:
            return _some(plan, rows, parameters)
        case Part.DISTINCT:
            return _distinct(rows, plan.order, [])
        case Part.GROUPS:
            assert isinstance(plan.stage, Summarize)
            return merged_states(plan.stage, rows)
        case Part.FIELDS:
            return f"SELECT name, sum(n)::BIGINT AS n FROM ({rows}) GROUP BY name"


def part_schema(plan: Plan) -> Schema:
    """The columns of the answer of a chunk."""
    lines = {"time_us": _arrow.int64(), "pos": _arrow.int64(), "line": _arrow.string()}
    match plan.part:
        case Part.RECORDS | Part.SOME:
            columns = lines
        case Part.DISTINCT:
            columns = lines | {"n": _arrow.int64()}
        case Part.GROUPS:
            assert isinstance(plan.stage, Summarize)
            columns = state_columns(plan.stage)
        case Part.FIELDS:
            columns = {"name": _arrow.string(), "n": _arrow.int64()}
    return _arrow.schema(list(columns.items()))


def record_order(order: Order, *before: str) -> tuple[OrderKey, ...]:
    """The order of records; `before` are columns that come before their position."""
    keys = tuple(OrderKey(column) for column in (*before, "pos"))
    return (OrderKey("time_us"), *keys) if order is Order.TIME else keys


def _counts(stage: Summarize, rows: Sql) -> Sql:
    """States that are numbers of records alone, without making groups."""
    counts = "".join(f", counted AS {name}" for name in state_columns(stage))
    return f"""SELECT mark, counted, NULL::VARCHAR AS file{counts} FROM (
        SELECT unnest([0, 1])::TINYINT AS mark, unnest([records, bad]) AS counted FROM (
        SELECT count(*) FILTER (mark = 0) AS records, count(*) FILTER (mark = 1) AS bad FROM ({rows})))"""


def _whole_condition(plan: Plan, spec: SearchSpec) -> Condition:
    if spec.start_us is None and spec.end_us is None:
        return plan.search.condition
    start, end = (None if end is None else TimePoint(end) for end in (spec.start_us, spec.end_us))
    return And((TimeRange(start, end), plan.search.condition))


def _lines(plan: Plan, records: SearchedRecords, condition: Sql, parameters: Parameters, *, timed: bool) -> Sql:
    """The columns `mark`, `file`, `time_us` if wanted, and `line`, after the cuts."""
    kept = [*_MARKED, *(["time_us"] if timed else [])]
    if not plan.cuts:
        return records.matched(condition, [], line=True, time=timed)[0]
    names = [field.name for field in plan.cuts[0].fields]
    rows, values = records.matched(condition, names, line=False, time=timed)
    rows = _cut(rows, {name: values[name] for name in names}, kept, parameters)
    for cut in plan.cuts[1:]:
        fields = FieldColumns(parameters, [field.name for field in cut.fields])
        values = {field.name: fields.value(field.name) for field in cut.fields}
        rows = _cut(fields.of_lines(kept, rows), values, kept, parameters)
    return rows


def _cut(rows: Sql, values: dict[str, Value], kept: list[str], parameters: Parameters) -> Sql:
    cut = f"SELECT {', '.join(kept)}, {cut_line(values, parameters)} AS line FROM ({rows})"
    return f"""SELECT CASE WHEN mark = 0 AND line IS NULL THEN 2 ELSE mark END::TINYINT AS mark,
        * EXCLUDE (mark) FROM ({cut})"""


def _fields(
    plan: Plan, records: SearchedRecords, condition: Sql, names: list[str], parameters: Parameters
) -> tuple[Sql, dict[str, Value]]:
    """The columns `mark` and `file`, and columns for the fields, after the cuts."""
    if not plan.cuts:
        return records.matched(condition, names, line=False, time=False)
    fields = FieldColumns(parameters, names)
    rows = _lines(plan, records, condition, parameters, timed=False)
    return fields.of_lines(_MARKED, rows), {name: fields.value(name) for name in names}


def _some(plan: Plan, rows: Sql, parameters: Parameters) -> Sql:
    assert isinstance(plan.stage, Head | Tail)
    lines = Lines(f"SELECT time_us, pos, line FROM ({rows})", record_order(plan.order))
    if plan.order is not Order.TIME:
        lines = Lines(lines.sql, (*lines.order, OrderKey("time_us")))  # all NULL, and kept
    return f"SELECT time_us, pos, line FROM ({with_stages(lines, [*plan.sorts, plan.stage], parameters).sql})"


def _distinct(rows: Sql, order: Order, extra: list[str]) -> Sql:
    """Each once, where it first stood, with how many there were."""
    place = "row_number() OVER (ORDER BY time_us NULLS LAST, pos)" if order is Order.TIME else "pos"
    keys = "".join(f"{key}, " for key in extra)
    return f"""SELECT {keys}arg_min_null(time_us, place) AS time_us, arg_min(pos, place) AS pos,
        arg_min(line, place) AS line, sum(n)::BIGINT AS n
        FROM (SELECT *, {place} AS place FROM ({rows})) GROUP BY {keys}{CANONICAL}"""
