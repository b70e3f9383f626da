"""A condition as an SQL expression over records.

An atom is true or false of a record, so that `not` is its complement. In SQL it may also be NULL, which counts as
false where nothing negates it; only there is it made false. A bare comparison is what DuckDB can push into a scan.
"""

from collections.abc import Iterator
from typing import Final, Protocol, assert_never

from quarterdeck.search.engine.patterns import of_glob
from quarterdeck.search.engine.sql import Parameters, Sql, all_of, any_of
from quarterdeck.search.engine.values import INTEGER, INTEGER_LIMIT, Value
from quarterdeck.search.language import ast
from quarterdeck.search.language.ast import And, Compare, Condition, Contains, Everything, Not, Op, Or, TimeRange

COMPARISONS: Final = {
    Op.EQUAL: "=",
    Op.NOT_EQUAL: "<>",
    Op.LESS: "<",
    Op.LESS_OR_EQUAL: "<=",
    Op.GREATER: ">",
    Op.GREATER_OR_EQUAL: ">=",
}
_EXACT_DOUBLES: Final = 2**53
"""Below it an integer and its double are equal to the same numbers."""


class Records(Protocol):
    """Records of one kind of file, as conditions see them."""

    def value(self, name: str) -> Value:
        """The field of this name."""
        ...

    def compare(self, compare: Compare) -> Sql:
        """What a comparison of a field is."""
        ...

    def contains(self, value: ast.Value) -> Sql:
        """Whether the text of a record has it."""
        ...

    def is_within(self, start_us: int | None, end_us: int | None) -> Sql:
        """Whether the time of a record is not before the start and before the end."""
        ...


def atoms_of(condition: Condition) -> Iterator[Contains | Compare | TimeRange]:
    """What a condition is made of, as often as it is said."""
    match condition:
        case Contains() | Compare() | TimeRange():
            yield condition
        case And() | Or():
            for part in condition.parts:
                yield from atoms_of(part)
        case Not():
            yield from atoms_of(condition.part)
        case Everything():
            return
        case _:
            assert_never(condition)


def condition_sql(condition: Condition, records: Records, now_us: int, *, negated: bool = False) -> Sql:
    match condition:
        case Everything():
            return "true"
        case And():
            return all_of([condition_sql(part, records, now_us, negated=negated) for part in condition.parts])
        case Or():
            return any_of([condition_sql(part, records, now_us, negated=negated) for part in condition.parts])
        case Not():
            return f"NOT ({condition_sql(condition.part, records, now_us, negated=True)})"
        case Contains():
            atom = records.contains(condition.value)
        case Compare():
            atom = records.compare(condition)
        case TimeRange():
            ends = [
                None if end is None else end.at_us + end.relative * now_us for end in (condition.start, condition.end)
            ]
            atom = records.is_within(*ends)
        case _:
            assert_never(condition)
    return f"coalesce({atom}, false)" if negated else atom


def compare_value(value: Value, compare: Compare, parameters: Parameters) -> Sql:
    """What a comparison means, told by the text of a value, whatever the value is."""
    op, wanted = compare.op, compare.value
    match wanted:
        case ast.Text():
            return f"{value.text} {COMPARISONS[op]} {parameters.add(wanted.text)}"
        case ast.Glob() if not wanted.pattern.strip("*"):
            return value.is_there if op is Op.EQUAL else "false"
        case ast.Glob():
            matches = f"regexp_full_match({value.text}, {parameters.add(of_glob(wanted.pattern))})"
            return matches if op is Op.EQUAL else f"NOT {matches}"
        case ast.Regex():
            matches = f"regexp_matches({value.text}, {parameters.add(wanted.pattern)})"
            return matches if op is Op.MATCH else f"NOT {matches}"
        case ast.Number():
            return _compare_number(value, op, wanted, parameters)
        case _:
            assert_never(wanted)


def compare_time(time_us: Sql, start_us: int | None, end_us: int | None, parameters: Parameters) -> Sql:
    parts = [f"{time_us} IS NOT NULL"] if start_us is None and end_us is None else []
    if start_us is not None:
        parts.append(f"{time_us} >= {parameters.add(start_us)}::HUGEINT")
    if end_us is not None:
        parts.append(f"{time_us} < {parameters.add(end_us)}::HUGEINT")
    return all_of(parts)


def _compare_number(value: Value, op: Op, wanted: ast.Number, parameters: Parameters) -> Sql:
    if op is Op.EQUAL:
        equal = _compare_numbers(value, op, wanted, parameters)
        return f"{value.text} = {parameters.add(wanted.text)} OR {equal}"
    if op is Op.NOT_EQUAL:
        equal = _compare_number(value, Op.EQUAL, wanted, parameters)
        return f"{value.is_there} AND NOT coalesce({equal}, false)"
    return _compare_numbers(value, op, wanted, parameters)


def _compare_numbers(value: Value, op: Op, wanted: ast.Number, parameters: Parameters) -> Sql:
    sign = COMPARISONS[op]
    doubles = f"{value.number} {sign} {parameters.add(float(wanted.value))}::DOUBLE"
    if op in (Op.LESS, Op.LESS_OR_EQUAL):
        doubles = f"{doubles} AND {value.number} > '-inf'::DOUBLE"
    elif op is not Op.EQUAL:
        doubles = f"{doubles} AND {value.number} < 'inf'::DOUBLE"
    is_exact = wanted.value == wanted.value.to_integral_value() and _EXACT_DOUBLES <= abs(wanted.value) < INTEGER_LIMIT
    if not is_exact:
        return f"({doubles})"
    integers = f"{value.integer} {sign} {parameters.add(str(int(wanted.value)))}::{INTEGER}"
    return f"CASE WHEN {value.integer} IS NOT NULL THEN {integers} ELSE {doubles} END"
