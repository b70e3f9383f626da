"""The tree of a search: frozen nodes, each with its place in the text.

A search is a condition on records and a list of stages that their results go through. Equality ignores places. The tree
says what was written: it must not know files, types of columns or DuckDB.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the search's text, in characters: from `start` to before `end`."""

    start: int
    end: int


NOWHERE = Span(0, 0)
"""The place of a node that nobody wrote."""


def _place() -> Span:
    return field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. `a.b` is the field of that name or, where there is none, `b` within `a`."""

    name: str
    span: Span = _place()


# Values


@dataclass(frozen=True, slots=True)
class Text:
    """A word or a quoted text: itself, to the letter."""

    text: str
    quoted: bool = False
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Number:
    """A word that is a number; `text` is how it was written."""

    text: str
    value: Decimal
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Glob:
    """A word with wildcards: `*` is any run of characters, `?` is one."""

    pattern: str
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression as RE2 knows them, found anywhere in the text; valid."""

    pattern: str
    span: Span = _place()


Value: TypeAlias = Text | Number | Glob | Regex


# Conditions


class Op(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    MATCH = "=~"
    NOT_MATCH = "!~"


@dataclass(frozen=True, slots=True)
class Everything:
    """`*`, or nothing at all: every record."""

    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Contains:
    """A word, phrase, glob or expression that is somewhere in the record's text."""

    value: Value
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition on one field. A record without the field fulfils none of them, `!=` and `!~` included."""

    field: Field
    op: Op
    value: Value
    """A `Regex` with `=~` and `!~`, and only there; a `Glob` with `=` and `!=` only."""
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A moment, or one relative to when the search began."""

    at_us: int
    """Since 1970 in UTC; with `relative` the microseconds after now, mostly negative."""
    relative: bool = False
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class TimeRange:
    """`[start, end]`: records whose time is not before `start` and before `end`."""

    start: TimePoint | None
    end: TimePoint | None
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple["Condition", ...]
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple["Condition", ...]
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Not:
    """Of a record without a field `f`, `not f=1` is true and `f!=1` is not."""

    part: "Condition"
    span: Span = _place()


Condition: TypeAlias = Everything | Contains | Compare | TimeRange | And | Or | Not


# Stages


class AggregateOp(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    op: AggregateOp
    argument: Field | None
    """None for `count()` alone: all records. With one, `count` counts those that have the field."""
    name: str
    """Of the result: `count`, `sum_bytes`, or what was written after `as`."""
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Summarize:
    """`count(), avg(f) by g, h`: a row for each group, ordered by the group's values."""

    aggregates: tuple[Aggregate, ...]
    by: tuple[Field, ...] = ()
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class SortKey:
    field: Field
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Sort:
    """Numbers before texts, what has no value last, in both directions; equals stay in their order."""

    keys: tuple[SortKey, ...]
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Head:
    count: int
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Tail:
    count: int
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Cut:
    """These fields alone, in this order; records with none of them go."""

    fields: tuple[Field, ...]
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class Uniq:
    """Each record once, where it first stood; `counted` adds how often, as the field `count`."""

    counted: bool = False
    span: Span = _place()


@dataclass(frozen=True, slots=True)
class ListFields:
    """`fields` without names: a row `{"field": name, "count": n}` for each top-level field, by name."""

    span: Span = _place()


Stage: TypeAlias = Summarize | Sort | Head | Tail | Cut | Uniq | ListFields


@dataclass(frozen=True, slots=True)
class Search:
    """What was asked for."""

    condition: Condition
    stages: tuple[Stage, ...] = ()
    text: str = field(default="", compare=False)
