"""From tree to text. Each tree is written in one way, which parses to the same tree again."""

from typing import assert_never

from quarterdeck.search.language.ast import (
    Aggregate,
    And,
    Compare,
    Condition,
    Contains,
    Cut,
    Everything,
    Field,
    Glob,
    Head,
    ListFields,
    Not,
    Number,
    Or,
    Regex,
    Search,
    Sort,
    Stage,
    Summarize,
    Tail,
    Text,
    TimePoint,
    TimeRange,
    Uniq,
    Value,
)
from quarterdeck.search.language.quoting import quote_name, quote_pattern, quote_text
from quarterdeck.search.language.times import show_time


def to_text(search: Search) -> str:
    """The search as text.

    >>> from quarterdeck.search.language.parser import parse_search
    >>> to_text(parse_search("(level == error)and  !'x y'|head"))
    'level=error and not "x y" | head 10'
    """
    return " | ".join((show_condition(search.condition), *(show_stage(stage) for stage in search.stages)))


def show_condition(condition: Condition) -> str:
    """A condition as text."""
    match condition:
        case Everything():
            return "*"
        case Contains(Regex(pattern)):
            return "~" + quote_pattern(pattern)
        case Contains(value):
            return _value(value)
        case Compare(field, op, value):
            written = _value(value)
            gap = " " if written.startswith("~") else ""  # `x=~y` would be another condition
            return f"{quote_name(field.name)}{op}{gap}{written}"
        case TimeRange(start, end):
            return f"[{_time(start)}, {_time(end)}]"
        case And(parts):
            return " and ".join(_closed(part) for part in parts)
        case Or(parts):
            return " or ".join(show_condition(part) if isinstance(part, And) else _closed(part) for part in parts)
        case Not(part):
            return "not " + _closed(part)
        case _:
            assert_never(condition)


def _closed(part: Condition) -> str:
    """A condition that anything may stand beside."""
    text = show_condition(part)
    return f"({text})" if isinstance(part, And | Or) else text


def _value(value: Value) -> str:
    match value:
        case Text():
            return quote_text(value.text) if value.quoted else value.text
        case Number():
            return value.text
        case Glob():
            return value.pattern
        case Regex():
            return quote_pattern(value.pattern)
        case _:
            assert_never(value)


def _time(point: TimePoint | None) -> str:
    return "" if point is None else show_time(point)


def show_stage(stage: Stage) -> str:
    """A stage as text, without the `|` before it."""
    match stage:
        case Summarize():
            by = f" by {_names(stage.by)}" if stage.by else ""
            return ", ".join(_aggregate(aggregate) for aggregate in stage.aggregates) + by
        case Sort():
            keys = (quote_name(key.field.name) + (" desc" if key.descending else "") for key in stage.keys)
            return f"sort {', '.join(keys)}"
        case Head():
            return f"head {stage.count}"
        case Tail():
            return f"tail {stage.count}"
        case Cut():
            return f"cut {_names(stage.fields)}"
        case Uniq():
            return "uniq -c" if stage.counted else "uniq"
        case ListFields():
            return "fields"
        case _:
            assert_never(stage)


def _names(fields: tuple[Field, ...]) -> str:
    return ", ".join(quote_name(field.name) for field in fields)


def _aggregate(aggregate: Aggregate) -> str:
    argument = quote_name(aggregate.argument.name) if aggregate.argument else ""
    return f"{aggregate.op}({argument}) as {quote_name(aggregate.name)}"
