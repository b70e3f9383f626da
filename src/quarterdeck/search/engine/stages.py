"""Stages as SQL over rows that are lines of JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from quarterdeck.search.engine.aggregates import group_lines, group_states
from quarterdeck.search.engine.fields import FieldColumns
from quarterdeck.search.engine.ordering import OrderKey, order_by, reversed_order_by, sort_columns
from quarterdeck.search.engine.patterns import escaped
from quarterdeck.search.engine.sql import Parameters, Sql
from quarterdeck.search.engine.values import Value
from quarterdeck.search.language.ast import Cut, Head, ListFields, Sort, Stage, Summarize, Tail, Uniq
from quarterdeck.search.language.fields import stage_fields

CANONICAL: Final[Sql] = "json_extract(line, '$')::VARCHAR"
"""What makes two lines the same record: how they are written does not matter."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A query with the columns `line` and those that it is ordered by."""

    sql: Sql
    order: tuple[OrderKey, ...]
    weight: Sql = "1"
    """For how many records a line stands."""

    @property
    def columns(self) -> list[Sql]:
        return ["line", *(key.column for key in self.order), *([] if self.weight == "1" else [self.weight])]

    @property
    def ordered_sql(self) -> Sql:
        return f"SELECT line FROM ({self.sql}){order_by(self.order)}"


def with_stages(lines: Lines, stages: Sequence[Stage], parameters: Parameters) -> Lines:
    for number, stage in enumerate(stages):
        lines = _with_stage(lines, stage, parameters, f"o{number}_")
    return lines


def _with_stage(lines: Lines, stage: Stage, parameters: Parameters, prefix: str) -> Lines:
    match stage:
        case Sort():
            return sorted_lines(lines, stage, parameters, prefix)
        case Head():
            return replace(lines, sql=f"SELECT * FROM ({lines.sql}){order_by(lines.order)} LIMIT {stage.count}")
        case Tail():
            last = f"SELECT * FROM ({lines.sql}){reversed_order_by(lines.order)} LIMIT {stage.count}"
            return replace(lines, sql=last)
        case Cut():
            names = [field.name for field in stage.fields]
            fields = FieldColumns(parameters, names)
            rows = fields.of_lines([key.column for key in lines.order], lines.sql)
            values = {name: fields.value(name) for name in names}
            kept = "".join(f", {key.column}" for key in lines.order)
            cut = f"SELECT {cut_line(values, parameters)} AS line{kept} FROM ({rows})"
            return Lines(f"SELECT * FROM ({cut}) WHERE line IS NOT NULL", lines.order)
        case Uniq():
            return distinct_lines(lines, prefix, counted=stage.counted)
        case Summarize():
            fields = FieldColumns(parameters, [field.name for field in stage_fields(stage)])
            values = {field.name: fields.value(field.name) for field in stage_fields(stage)}
            states = group_states(stage, fields.of_lines([], lines.sql), values, [])
            rows, order = group_lines(stage, states, parameters)
            return Lines(rows, tuple(order))
        case ListFields():
            return field_lines(f"SELECT name, count(*) AS n FROM ({field_names(lines.sql, [])}) GROUP BY name")
        case _:
            assert_never(stage)


def sorted_lines(lines: Lines, stage: Sort, parameters: Parameters, prefix: str) -> Lines:
    """Equals stay in their order."""
    fields = FieldColumns(parameters, [key.field.name for key in stage.keys])
    rows = fields.of_lines(lines.columns, lines.sql)
    order: list[OrderKey] = []
    for number, key in enumerate(stage.keys):
        rows, keys = sort_columns(rows, fields.value(key.field.name), f"{prefix}{number}_", descending=key.descending)
        order += keys
    return replace(lines, sql=fields.without(rows), order=(*order, *lines.order))


def distinct_lines(lines: Lines, prefix: str, *, counted: bool) -> Lines:
    """Each once, where it first stood."""
    place = f"{prefix}place"
    numbered = f"""SELECT line, {lines.weight} AS weight, row_number() OVER ({order_by(lines.order)}) AS {place}
        FROM ({lines.sql})"""
    sql = f"""SELECT arg_min(line, {place}) AS line, sum(weight)::BIGINT AS weight, min({place}) AS {place}
        FROM ({numbered}) GROUP BY {CANONICAL}"""
    if counted:
        sql = f"SELECT {_with_count(CANONICAL, 'weight')} AS line, {place} FROM ({sql})"
    return Lines(sql, (OrderKey(place),))


def cut_line(values: Mapping[str, Value], parameters: Parameters) -> Sql:
    """The line of some fields, those that are there; NULL without any."""
    parts: list[Sql] = []
    for name, value in values.items():
        key = parameters.add(f',"{escaped(name)}":')
        parts.append(f"CASE WHEN {value.is_there} THEN {key} || {value.json} ELSE '' END")
    text = f"concat({', '.join(parts)})"
    return f"'{{' || nullif(substring({text}, 2), '') || '}}'"


def field_names(rows: Sql, kept: Sequence[str]) -> Sql:
    """A row for each field of each line, with its `name`, and one without a name for each line."""
    there = """CASE WHEN contains(line, 'null') THEN list_filter(json_keys(line), lambda name:
        json_extract_string(line, '/' || replace(replace(name, '~', '~0'), '/', '~1')) IS NOT NULL)
        ELSE json_keys(line) END"""
    columns = [*kept, f"unnest([NULL] || coalesce(list_distinct({there}), [])) AS name"]
    return f"SELECT {', '.join(columns)} FROM ({rows})"


def field_lines(counts: Sql) -> Lines:
    line = """concat('{"field":', to_json(name), ',"count":', n, '}')"""
    return Lines(f"SELECT {line} AS line, name FROM ({counts}) WHERE name IS NOT NULL", (OrderKey("name"),))


def _with_count(line: Sql, count: Sql) -> Sql:
    """A line with one more field, which replaces one of its name."""
    return f"""CASE WHEN json_extract(line, '/count') IS NOT NULL
            THEN json_merge_patch(line, json_object('count', {count}))::VARCHAR
        WHEN {line} = '{{}}' THEN concat('{{"count":', {count}, '}}')
        ELSE concat(left({line}, length({line}) - 1), ',"count":', {count}, '}}') END"""
