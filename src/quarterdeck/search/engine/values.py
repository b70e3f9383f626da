"""A value of a field as SQL sees it: its JSON text, and from that its text, its number and its time.

All are NULL where the field is absent or null. A number is one in JSON or a text that looks like one: digits with a
point, a sign, an exponent, and nothing else. An integer has up to 30 digits and neither point nor exponent: those are
exact, everything else is a double.

The expressions are kept short: what DuckDB has to plan costs more than a megabyte of lines.
"""

from dataclasses import dataclass
from typing import Final

from quarterdeck.search.engine.line_call import ValueKind
from quarterdeck.search.engine.sql import Sql

_NUMBER: Final = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
_INTEGER: Final = "[-+]?[0-9]+"
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
    native_time_us: Sql | None = None

    @property
    def time_us(self) -> Sql:
        """BIGINT."""
        return time_of_text(self.text) if self.native_time_us is None else self.native_time_us


def of_json(json: Sql) -> Value:
    """From a JSON text that is NULL instead of `null`; best the name of a column, as it is said often."""
    # JSON's own numbers are known by their first character: the texts between '-' and ':' are those and nothing else.
    # -Infinity, which DuckDB takes for JSON, is no integer and not finite. A number within a string has no escapes.
    own = f"{json} < ':' AND {json} >= '-'"
    number = f"CASE WHEN {own} THEN TRY_CAST({json} AS DOUBLE) ELSE {_within(json, _NUMBER, 'DOUBLE')} END"
    integer = f"""CASE WHEN {own} THEN CASE
            WHEN NOT contains({json}, '.') AND NOT contains({json}, 'e') AND NOT contains({json}, 'E')
            THEN TRY_CAST({json} AS {INTEGER}) END
        ELSE {_within(json, _INTEGER, INTEGER)} END"""
    return Value(json, text_of_json(json), number, integer, f"{json} IS NOT NULL")


def of_raw(raw: Sql, kind: Sql) -> Value:
    """From a value as it stands in a line, and its `ValueKind`."""
    json = f"CASE WHEN {kind} < {ValueKind.REAL:d} THEN {raw} ELSE {_minified(raw)} END"
    text = f"""CASE WHEN {kind} = {ValueKind.STRING:d} THEN {raw}[2:-2] WHEN {kind} < {ValueKind.STRING:d} THEN {raw}
        WHEN {kind} = {ValueKind.ESCAPED:d} THEN json_extract_string({raw}, '$') ELSE {_minified(raw)} END"""
    is_own = f"{kind} = {ValueKind.INTEGER:d} OR {kind} = {ValueKind.REAL:d}"
    is_string = f"{kind} = {ValueKind.STRING:d} OR {kind} = {ValueKind.ESCAPED:d}"
    number = f"""CASE WHEN {is_own} THEN TRY_CAST({raw} AS DOUBLE)
        WHEN {is_string} THEN {_within(json, _NUMBER, "DOUBLE")} END"""
    # Minified, -0 is 0.
    integer = f"""CASE WHEN {kind} = {ValueKind.INTEGER:d} OR {raw} = '-0' THEN TRY_CAST({raw} AS {INTEGER})
        WHEN {is_string} THEN {_within(json, _INTEGER, INTEGER)} END"""
    return Value(json, text, number, integer, f"{raw} IS NOT NULL")


def of_text(text: Sql, json: Sql) -> Value:
    """From both; the text is enough for the rest."""
    number = f"CASE WHEN regexp_full_match({text}, '{_NUMBER}') THEN TRY_CAST({text} AS DOUBLE) END"
    integer = f"CASE WHEN regexp_full_match({text}, '{_INTEGER}') THEN TRY_CAST({text} AS {INTEGER}) END"
    return Value(json, text, number, integer, f"{text} IS NOT NULL")


def text_of_json(json: Sql) -> Sql:
    return f"CASE WHEN starts_with({json}, '\"') THEN json_extract_string({json}, '$') ELSE {json} END"


def _within(json: Sql, form: str, kind: Sql) -> Sql:
    """The number that a JSON string holds. In minified JSON no digit is written as an escape."""
    return f"CASE WHEN regexp_full_match({json}, '\"{form}\"') THEN TRY_CAST({json}[2:-2] AS {kind}) END"


def _minified(json: Sql) -> Sql:
    return f"json_extract({json}, '$')::VARCHAR"


def time_of_text(text: Sql) -> Sql:
    """A date begins with a year of four digits and a dash. TIMESTAMPTZ honours an offset, and is UTC without one; forms
    that a search may be asked with and the cast does not know are rewritten, such as `12:30:00,5` of Python's logs. A
    number is in seconds, milliseconds, microseconds or nanoseconds, by magnitude; doubles cannot hold the last."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    unit = f"CASE WHEN abs({number}) < 1e11 THEN 1e6 WHEN abs({number}) < 1e14 THEN 1e3 ELSE 1 END"
    usual = f"regexp_replace(replace(upper({text}), ',', '.'), '\\s+([-+][0-9:]+|Z)$', '\\1')"
    return f"""CASE WHEN substring({text}, 5, 1) = '-'
            THEN epoch_us(coalesce(TRY_CAST({text} AS TIMESTAMPTZ), TRY_CAST({usual} AS TIMESTAMPTZ)))
        WHEN regexp_full_match({text}, '{_NUMBER}') THEN CASE
            WHEN abs({number}) < 1e17 THEN TRY_CAST(round({number} * {unit}) AS BIGINT)
            ELSE TRY_CAST(TRY_CAST({text} AS HUGEINT) // 1000 AS BIGINT) END END"""


def json_of_number(number: Sql) -> Sql:
    """The JSON text of a double. JSON has no infinity: it is a string."""
    return f"""CASE WHEN isfinite({number}) THEN to_json({number})::VARCHAR
        WHEN {number} IS NULL THEN NULL WHEN isnan({number}) THEN '"NaN"'
        WHEN {number} > 0 THEN '"Infinity"' ELSE '"-Infinity"' END"""
