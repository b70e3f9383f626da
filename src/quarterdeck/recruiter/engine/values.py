"""A value of a field as SQL sees it: its JSON text, and from that its text, its number and its time.

All are NULL where the field is absent or null. A number is one in JSON or a text that looks like one: digits with a
point, a sign, an exponent, and nothing else. An integer has up to 30 digits and neither point nor
exponent: those are exact, everything else is a double.
"""

from dataclasses import dataclass
from typing import Final

from quarterdeck.recruiter.engine.sql import Sql

_NUMBER: Final = r"'[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?'"
_INTEGER: Final = "'[-+]?[0-9]+'"
INTEGER: Final[Sql] = "DECIMAL(30,0)"
"""The type of integers."""
INTEGER_LIMIT: Final = 10**30


@dataclass(frozen=True, slots=True)
class Value:
    """Expressions for one field."""

    json: Sql
    """VARCHAR: a value as JSON writes it, minified."""
    text: Sql
    """VARCHAR: a string as it is, anything else as JSON writes it."""
    number: Sql
    """DOUBLE. Not always finite: what is not is no number, and whoever uses it sees to that, after it was computed."""
    integer: Sql
    """`INTEGER`."""
    is_there: Sql
    time_us: Sql
    """BIGINT."""


def of_json(json: Sql) -> Value:
    """From a JSON text that is NULL instead of `null`."""
    text = f"CASE WHEN starts_with({json}, '\"') THEN json_extract_string({json}, '$') ELSE {json} END"
    # JSON's own numbers are known by their first character. The texts between '-' and ':' are those and nothing else;
    # -Infinity, which DuckDB takes for JSON, is no integer and not finite.
    number = f"""CASE
        WHEN {json} < ':' AND {json} >= '-' THEN TRY_CAST({json} AS DOUBLE)
        WHEN starts_with({json}, '"') THEN {number_of_text(f"json_extract_string({json}, '$')")} END"""
    integer = f"""CASE
        WHEN {json} < ':' AND {json} >= '-' THEN CASE
            WHEN NOT contains({json}, '.') AND NOT contains({json}, 'e') AND NOT contains({json}, 'E')
            THEN TRY_CAST({json} AS {INTEGER}) END
        WHEN starts_with({json}, '"') THEN {integer_of_text(f"json_extract_string({json}, '$')")} END"""
    return Value(json, text, number, integer, f"{json} IS NOT NULL", time_of_text(text))


def of_text(text: Sql, json: Sql) -> Value:
    """From both; the text is enough for the rest."""
    number, integer = number_of_text(text), integer_of_text(text)
    return Value(json, text, number, integer, f"{text} IS NOT NULL", time_of_text(text))


def number_of_text(text: Sql) -> Sql:
    """DuckDB takes blanks, underscores and nan for numbers, so what may be one is decided before."""
    return f"CASE WHEN regexp_full_match({text}, {_NUMBER}) THEN TRY_CAST({text} AS DOUBLE) END"


def integer_of_text(text: Sql) -> Sql:
    return f"CASE WHEN regexp_full_match({text}, {_INTEGER}) THEN TRY_CAST({text} AS {INTEGER}) END"


def time_of_text(text: Sql) -> Sql:
    """A date begins with a year of four digits and a dash. TIMESTAMPTZ honours an offset, and is UTC without one."""
    return f"""CASE WHEN substring({text}, 5, 1) = '-' THEN epoch_us(TRY_CAST({text} AS TIMESTAMPTZ))
        ELSE {time_of_number(number_of_text(text), integer_of_text(text))} END"""


def time_of_number(number: Sql, integer: Sql) -> Sql:
    """Seconds, milliseconds, microseconds or nanoseconds, by magnitude. Integers are not rounded."""
    exact = f"({integer})::HUGEINT"
    return f"""TRY_CAST(CASE
        WHEN abs({number}) < 1e11 THEN coalesce({exact} * 1000000, TRY_CAST(round({number} * 1e6) AS HUGEINT))
        WHEN abs({number}) < 1e14 THEN coalesce({exact} * 1000, TRY_CAST(round({number} * 1e3) AS HUGEINT))
        WHEN abs({number}) < 1e17 THEN coalesce({exact}, TRY_CAST(round({number}) AS HUGEINT))
        ELSE coalesce({exact} // 1000, TRY_CAST(floor({number} / 1e3) AS HUGEINT)) END AS BIGINT)"""


def json_of_number(number: Sql) -> Sql:
    """The JSON text of a double. JSON has no infinity: it is a string."""
    return f"""CASE WHEN isfinite({number}) THEN to_json({number})::VARCHAR
        WHEN {number} IS NULL THEN NULL WHEN isnan({number}) THEN '"NaN"'
        WHEN {number} > 0 THEN '"Infinity"' ELSE '"-Infinity"' END"""
