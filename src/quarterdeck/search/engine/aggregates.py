"""Groups and their aggregates: states of a part, states of several parts together, and the rows they come to.

A sum is kept in two: integers exactly, the rest with Kahan's correction. Parts are put together in the order of the
chunks, so that the same chunks give the same bits. A least and a greatest value are kept three times: of integers, of
other numbers and of texts.

Groups are ordered by their values: numbers, those in texts included, then texts, then what is absent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.engine.ordering import OrderKey, sort_columns
from quarterdeck.search.engine.patterns import escaped
from quarterdeck.search.engine.sql import Parameters, Sql
from quarterdeck.search.engine.values import Value, json_of_number, of_json
from quarterdeck.search.language.ast import Aggregate, AggregateOp, Summarize

_arrow: Final[Any] = pyarrow
_COUNT: Final[Any] = _arrow.int64()
_SUM: Final = "DECIMAL(38,0)"

ArrowType: TypeAlias = Any
"""A `pyarrow.DataType`."""


@dataclass(frozen=True, slots=True)
class _State:
    """One column of an aggregate's state."""

    name: str
    type: ArrowType
    of_records: Sql
    """Over the columns of a record."""
    of_states: Sql
    """Over states."""


def group_states(stage: Summarize, rows: Sql, values: Mapping[str, Value], extra: Sequence[Sql]) -> Sql:
    """States of groups of records, which are rows that have columns for the values; `extra` columns are keys too. `n`
    is the number of records."""
    integers: list[Sql] = []
    doubles: list[Sql] = []
    columns = list(extra)
    for number, field in enumerate(stage.by):
        columns.append(f"{values[field.name].json} AS k{number}")
    for number, aggregate in enumerate(stage.aggregates):
        if aggregate.argument is None:
            continue
        value = values[aggregate.argument.name]
        if aggregate.op is AggregateOp.COUNT:
            columns.append(f"{value.is_there} AS a{number}")
            continue
        # Most numbers are integers, and need not be looked at again.
        integers.append(f"{value.integer} AS i{number}")
        columns += [f"i{number}", f"CASE WHEN i{number} IS NULL THEN {value.number} END AS d{number}"]
        doubles.append(f"CASE WHEN isfinite(d{number}) THEN d{number} END AS d{number}")
        if aggregate.op in (AggregateOp.MIN, AggregateOp.MAX):
            columns.append(f"CASE WHEN i{number} IS NULL THEN {value.text} END AS t{number}")
            doubles.append(f"CASE WHEN NOT coalesce(isfinite(d{number}), false) THEN t{number} END AS t{number}")
    if integers:
        rows = f"SELECT *, {', '.join(integers)} FROM ({rows})"
    rows = f"SELECT {', '.join(columns) or '1'} FROM ({rows})"
    if doubles:
        rows = f"SELECT * REPLACE ({', '.join(doubles)}) FROM ({rows})"
    keys = [*extra, *_keys(stage)]
    results = [*keys, "count(*) AS n", *(f"{state.of_records} AS {state.name}" for state in _states(stage))]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(results)} FROM ({rows}){grouped}"


def merged_states(stage: Summarize, rows: Sql) -> Sql:
    """Rows that are states, each group once. Without groups it is one row, even of none."""
    keys = _keys(stage)
    results = [*keys, "coalesce(sum(n), 0)::BIGINT AS n"]
    results += [f"{state.of_states} AS {state.name}" for state in _states(stage)]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(results)} FROM ({rows}){grouped}"


def state_columns(stage: Summarize) -> dict[str, ArrowType]:
    """The columns of states."""
    columns = dict.fromkeys(_keys(stage), _arrow.string())
    return columns | {"n": _COUNT} | {state.name: state.type for state in _states(stage)}


@dataclass(frozen=True, slots=True)
class StateCounts:
    """What the state of an aggregate says about how many records of its group it is made of."""

    columns: tuple[str, ...]
    """To be added up; one that is NULL counts none."""
    is_of_all: bool
    """Whether it is all records of the group; else it may be any number of them."""


def state_counts(stage: Summarize) -> Iterator[StateCounts]:
    """Of the aggregates that keep such a count."""
    for number, aggregate in enumerate(stage.aggregates):
        match aggregate.op:
            case AggregateOp.COUNT:
                yield StateCounts((f"s{number}",), is_of_all=aggregate.argument is None)
            case AggregateOp.SUM | AggregateOp.AVG:
                yield StateCounts((f"s{number}_in", f"s{number}_dn"), is_of_all=False)
            case AggregateOp.MIN | AggregateOp.MAX:
                pass
            case _:
                assert_never(aggregate.op)


def group_lines(stage: Summarize, states: Sql, parameters: Parameters) -> tuple[Sql, list[OrderKey]]:
    """A line for each group, and the columns that they are ordered by."""
    names = [field.name for field in stage.by] + [aggregate.name for aggregate in stage.aggregates]
    results = [f"coalesce({key}, 'null')" for key in _keys(stage)]
    results += [_result(number, aggregate) for number, aggregate in enumerate(stage.aggregates)]
    parts: list[Sql] = []
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        start = "," if number else "{"
        parts.append(parameters.add(f'{start}"{escaped(name)}":'))
        parts.append(f"({result})")
    line = f"concat({', '.join(parts)}, '}}') AS line"
    ordered = states
    keys: list[OrderKey] = []
    for number, key in enumerate(_keys(stage)):
        ordered, more = sort_columns(ordered, of_json(key), f"g{number}_", descending=False)
        # Of 5 and "5" the number comes first, and then decides how JSON writes them.
        ordered = f"SELECT *, starts_with({key}, '\"') AS g{number}_string FROM ({ordered})"
        keys += [*more, OrderKey(f"g{number}_string"), OrderKey(key)]
    columns = [line, *(key.column for key in keys)]
    return f"SELECT {', '.join(columns)} FROM ({ordered})", keys


def _keys(stage: Summarize) -> list[str]:
    return [f"k{number}" for number in range(len(stage.by))]


def _states(stage: Summarize) -> list[_State]:
    return [state for number, aggregate in enumerate(stage.aggregates) for state in _states_of(number, aggregate)]


def _states_of(number: int, aggregate: Aggregate) -> list[_State]:
    name = f"s{number}"
    integer, double, text = f"i{number}", f"d{number}", f"t{number}"
    match aggregate.op:
        case AggregateOp.COUNT:
            counted = "count(*)" if aggregate.argument is None else f"count(*) FILTER (a{number})"
            return [_State(name, _COUNT, counted, f"coalesce(sum({name}), 0)::BIGINT")]
        case AggregateOp.SUM | AggregateOp.AVG:
            return [
                _State(f"{name}_i", _arrow.decimal128(38, 0), f"sum({integer})::{_SUM}", f"sum({name}_i)::{_SUM}"),
                _State(f"{name}_in", _COUNT, f"count({integer})", f"sum({name}_in)::BIGINT"),
                _State(f"{name}_d", _arrow.float64(), f"fsum({double})", f"fsum({name}_d)"),
                _State(f"{name}_dn", _COUNT, f"count({double})", f"sum({name}_dn)::BIGINT"),
            ]
        case AggregateOp.MIN | AggregateOp.MAX:
            function = aggregate.op.value
            return [
                _State(f"{name}_i", _arrow.decimal128(30, 0), f"{function}({integer})", f"{function}({name}_i)"),
                _State(f"{name}_d", _arrow.float64(), f"{function}({double})", f"{function}({name}_d)"),
                _State(f"{name}_t", _arrow.string(), f"{function}({text})", f"{function}({name}_t)"),
            ]
        case _:
            assert_never(aggregate.op)


def _result(number: int, aggregate: Aggregate) -> Sql:
    """The JSON text of an aggregate."""
    name = f"s{number}"
    match aggregate.op:
        case AggregateOp.COUNT:
            return f"{name}::VARCHAR"
        case AggregateOp.SUM:
            total = f"{name}_d + coalesce({name}_i, 0)::DOUBLE"
            return f"""CASE WHEN coalesce({name}_in + {name}_dn, 0) = 0 THEN 'null' WHEN {name}_dn = 0
                THEN {name}_i::VARCHAR ELSE {json_of_number(f"({total})")} END"""
        case AggregateOp.AVG:
            average = f"(coalesce({name}_d, 0) + coalesce({name}_i, 0)::DOUBLE) / ({name}_in + {name}_dn)"
            return f"""CASE WHEN coalesce({name}_in + {name}_dn, 0) = 0 THEN 'null'
                ELSE {json_of_number(f"({average})")} END"""
        case AggregateOp.MIN | AggregateOp.MAX:
            sign = "<=" if aggregate.op is AggregateOp.MIN else ">="
            of_number = f"""CASE WHEN {name}_d IS NULL OR {name}_i::DOUBLE {sign} {name}_d THEN {name}_i::VARCHAR
                ELSE {json_of_number(f"{name}_d")} END"""
            of_text = f"to_json({name}_t)::VARCHAR"
            first, second = (of_number, of_text) if aggregate.op is AggregateOp.MIN else (of_text, of_number)
            return f"coalesce({first}, {second}, 'null')"
        case _:
            assert_never(aggregate.op)
