"""What a chunk's answer is made of, as SQL: the query over some of its files, and one answer out of several.

Every row of the query says whether it is part of the answer, or stands for records that match and are not; `counted` is
how many it stands for.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.engine.aggregates import group_states, merged_states, state_columns
from quarterdeck.search.engine.conditions import Records, condition_sql
from quarterdeck.search.engine.fields import FieldColumns
from quarterdeck.search.engine.ordering import OrderKey
from quarterdeck.search.engine.plan import Part, Plan
from quarterdeck.search.engine.sql import Parameters, Sql
from quarterdeck.search.engine.stages import CANONICAL, Lines, cut_line, field_names, with_stages
from quarterdeck.search.engine.values import Value
from quarterdeck.search.language.ast import And, Condition, Head, Summarize, Tail, TimePoint, TimeRange
from quarterdeck.search.language.fields import stage_fields
from quarterdeck.search.model import Order, SearchSpec

_arrow: Final[Any] = pyarrow

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""

MARKS: Final = ("is_answer", "counted")
"""The columns that are not part of the answer."""


class SearchedRecords(Records, Protocol):
    """Records that can be searched."""

    @property
    def is_read_twice(self) -> bool:
        """Whether reading them again is better than keeping what was found."""
        ...

    def having_sql(self, name: str) -> Sql:
        """Something for each record that has a field."""
        ...

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """Those that fulfil a condition: a query with the columns asked for of `line` and `time_us`, and columns for
        the fields."""
        ...


def chunk_sql(plan: Plan, spec: SearchSpec, records: SearchedRecords, parameters: Parameters, base: int) -> Sql:
    """The query over some files. `base` is the number of rows that were found before them."""
    condition = condition_sql(_whole_condition(plan, spec), records, spec.now_us)
    timed = plan.order is Order.TIME
    if plan.part is Part.GROUPS:
        assert isinstance(plan.stage, Summarize)
        names = [field.name for field in stage_fields(plan.stage)]
        rows, values = _fields(plan, records, condition, names, parameters)
        states = group_states(plan.stage, rows, values, ["is_answer"] if plan.cuts else [])
        if plan.cuts:
            return f"SELECT is_answer, n AS counted, * EXCLUDE (is_answer) FROM ({states})"
        return f"SELECT true AS is_answer, n AS counted, * FROM ({states})"
    rows = _lines(plan, records, condition, parameters, timed=timed and plan.part is not Part.FIELDS)
    if plan.part is Part.FIELDS:
        names_sql = field_names(rows, ["is_answer"])
        return f"""SELECT is_answer AND name IS NOT NULL AS is_answer,
            CASE WHEN name IS NULL THEN n ELSE 0 END AS counted, name, n
            FROM (SELECT is_answer, name, count(*) AS n FROM ({names_sql}) GROUP BY is_answer, name)"""
    found = f"""SELECT is_answer, 1::BIGINT AS counted, {"time_us" if timed else "NULL::BIGINT AS time_us"},
        {base} + row_number() OVER () AS pos, line FROM ({rows})"""
    if plan.part is Part.RECORDS or plan.first is not None:
        return found
    if plan.part is Part.DISTINCT:
        distinct = _distinct(f"SELECT *, 1::BIGINT AS n FROM ({found})", plan.order, ["is_answer"])
        return f"SELECT is_answer, n AS counted, * EXCLUDE (is_answer) FROM ({distinct})"
    some = _some(plan, "SELECT * FROM found WHERE is_answer", parameters)
    kept = "NOT MATERIALIZED" if records.is_read_twice else "MATERIALIZED"
    return f"""WITH found AS {kept} ({found})
        SELECT true AS is_answer, 0::BIGINT AS counted, * FROM ({some})
        UNION ALL SELECT false, count(*), NULL, NULL, NULL FROM found"""


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


def _whole_condition(plan: Plan, spec: SearchSpec) -> Condition:
    if spec.start_us is None and spec.end_us is None:
        return plan.search.condition
    start, end = (None if end is None else TimePoint(end) for end in (spec.start_us, spec.end_us))
    return And((TimeRange(start, end), plan.search.condition))


def _lines(plan: Plan, records: SearchedRecords, condition: Sql, parameters: Parameters, *, timed: bool) -> Sql:
    """The columns `is_answer`, `time_us` if wanted, and `line`, after the cuts."""
    kept = ["time_us"] if timed else []
    if not plan.cuts:
        return f"SELECT true AS is_answer, * FROM ({records.matched(condition, [], line=True, time=timed)[0]})"
    names = [field.name for field in plan.cuts[0].fields]
    rows, values = records.matched(condition, names, line=False, time=timed)
    rows = _cut(rows, {name: values[name] for name in names}, kept, parameters)
    for cut in plan.cuts[1:]:
        fields = FieldColumns(parameters, [field.name for field in cut.fields])
        values = {field.name: fields.value(field.name) for field in cut.fields}
        rows = _cut(fields.of_lines(kept, rows), values, kept, parameters)
    return f"SELECT *, line IS NOT NULL AS is_answer FROM ({rows})"


def _cut(rows: Sql, values: dict[str, Value], kept: list[str], parameters: Parameters) -> Sql:
    """Where nothing is left, the line is NULL."""
    return f"SELECT {', '.join([*kept, f'{cut_line(values, parameters)} AS line'])} FROM ({rows})"


def _fields(
    plan: Plan, records: SearchedRecords, condition: Sql, names: list[str], parameters: Parameters
) -> tuple[Sql, dict[str, Value]]:
    """Columns for the fields, after the cuts, and after any `is_answer`."""
    if not plan.cuts:
        return records.matched(condition, names, line=False, time=False)
    fields = FieldColumns(parameters, names)
    rows = _lines(plan, records, condition, parameters, timed=False)
    return fields.of_lines(["is_answer"], rows), {name: fields.value(name) for name in names}


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
