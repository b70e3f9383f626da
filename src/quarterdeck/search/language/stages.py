"""The stages of a search, from text to tree: `| sort -r bytes | head 5`, `| count(), avg(ms) as mean by service`."""

import re
from collections.abc import Callable
from typing import Final, NoReturn

from quarterdeck.search.language.ast import (
    Aggregate,
    AggregateOp,
    Cut,
    Field,
    Head,
    ListFields,
    Sort,
    SortKey,
    Span,
    Stage,
    Summarize,
    Tail,
    Uniq,
)
from quarterdeck.search.language.cursor import Cursor
from quarterdeck.search.language.errors import shown
from quarterdeck.search.language.fields import nearest
from quarterdeck.search.language.lexer import Kind, Token

MAX_COUNT = 1_000_000_000
"""Of `head` and `tail`."""
DEFAULT_COUNT = 10
# Each stage is a query around the one before it, and each key of a sort another one: what DuckDB has to plan grows much
# faster than the text. With these limits it takes less than a second.
MAX_STAGES = 20
"""Keys of a sort beyond its first count like stages."""
MAX_FIELDS = 100
"""Of `cut`."""
MAX_GROUPS = 20
"""Fields after `by`."""
MAX_AGGREGATES = 50
"""Functions of one stage."""

_DIGITS = re.compile(r"[0-9]+")
_OPS: Final = {op.value: op for op in AggregateOp}
_FUNCTIONS: Final = tuple(f"{op}()" for op in AggregateOp)


def parse_stages(cursor: Cursor) -> tuple[Stage, ...]:
    """All that comes after the condition, up to the end of the text."""
    stages: list[Stage] = []
    count = 0
    while cursor.peek().kind is not Kind.END:
        mark = cursor.expect_mark("|", "before the next stage", "separate stages with | and names with commas")
        stage = _stage(cursor)
        count += len(stage.keys) if isinstance(stage, Sort) else 1
        if count > MAX_STAGES:
            reason = f"the search has more than {MAX_STAGES} stages, the keys of its sorts counted"
            cursor.fail(reason, mark.span, "leave some out")
        stages.append(stage)
    return tuple(stages)


def _stage(cursor: Cursor) -> Stage:
    token = cursor.peek()
    if token.kind is not Kind.WORD:
        cursor.unexpected("a stage after `|`", f"write one of {_listed()}")
    cursor.take()
    if cursor.peek().marks("("):
        return _summarize(cursor, token)
    parse = _STAGES.get(token.text.lower())
    if parse is None:
        _refuse_stage(cursor, token)
    return parse(cursor, token)


def _listed() -> str:
    return ", ".join((*_STAGES, *_FUNCTIONS))


def _refuse_stage(cursor: Cursor, token: Token) -> NoReturn:
    name = token.text.lower()
    if name in _OPS:
        argument = "" if name == "count" else "FIELD"
        cursor.fail(f"{token.shown} lacks its parentheses", token.span, f"write {name}({argument})")
    close = nearest(name, (*_STAGES, *_OPS))
    close = [f"{word}()" if word in _OPS else word for word in close]
    step = f"perhaps {' or '.join(close)} is meant" if close else f"write one of {_listed()}"
    if token.glued:  # as in `path=~a|b`
        step += "; a | that is part of a value goes into quotes with it"
    cursor.fail(f"there is no stage {token.shown}", token.span, step)


# Stages with a name


def _sort(cursor: Cursor, word: Token) -> Sort:
    reverse = _take_option(cursor, "-r")
    keys: list[SortKey] = []
    while True:
        token = cursor.peek()
        if token.kind is Kind.WORD and token.text.startswith("-"):
            step = f"write {token.text[1:] or 'FIELD'} desc, or -r once after `sort`"
            cursor.fail(f"expected the name of a field, found {token.shown}", token.span, step)
        field = cursor.expect_field()
        descending = reverse
        if cursor.peek().says("asc", "desc"):
            descending = cursor.take().says("desc")
        keys.append(SortKey(field, descending))
        if not cursor.take_mark(","):
            return Sort(tuple(keys), Span(word.span.start, cursor.end))


def _head(cursor: Cursor, word: Token) -> Head:
    return Head(_count(cursor), Span(word.span.start, cursor.end))


def _tail(cursor: Cursor, word: Token) -> Tail:
    return Tail(_count(cursor), Span(word.span.start, cursor.end))


def _count(cursor: Cursor) -> int:
    token = cursor.peek()
    if token.kind is not Kind.WORD:
        return DEFAULT_COUNT
    digits = token.text.lstrip("0") or "0"
    if not _DIGITS.fullmatch(token.text) or len(digits) > 10 or int(digits) > MAX_COUNT:
        reason = f"{token.shown} is not a number of records"
        cursor.fail(reason, token.span, f"write a whole number from 0 to {MAX_COUNT}")
    cursor.take()
    return int(digits)


def _cut(cursor: Cursor, word: Token) -> Cut:
    fields = _fields(cursor, MAX_FIELDS)
    return Cut(fields, Span(word.span.start, cursor.end))


def _fields_stage(cursor: Cursor, word: Token) -> Cut | ListFields:
    ends = cursor.peek().kind is Kind.END or cursor.peek().marks("|")
    return ListFields(word.span) if ends else _cut(cursor, word)


def _uniq(cursor: Cursor, word: Token) -> Uniq:
    counted = _take_option(cursor, "-c")
    return Uniq(counted, Span(word.span.start, cursor.end))


_STAGES: Final[dict[str, Callable[[Cursor, Token], Stage]]] = {
    "cut": _cut,
    "fields": _fields_stage,
    "head": _head,
    "sort": _sort,
    "tail": _tail,
    "uniq": _uniq,
}


def _take_option(cursor: Cursor, option: str) -> bool:
    if not cursor.peek().says(option):
        return False
    cursor.take()
    return True


def _fields(cursor: Cursor, most: int) -> tuple[Field, ...]:
    """Names with commas between them, no two the same."""
    names: set[str] = set()
    fields: list[Field] = []
    while True:
        field = cursor.expect_field()
        if field.name in names:
            cursor.fail(f"the field {shown(field.name)} is named twice", field.span, "name it once")
        names.add(field.name)
        fields.append(field)
        if len(fields) > most:
            cursor.fail(f"there are more than {most} fields", field.span, "name fewer")
        if not cursor.take_mark(","):
            return tuple(fields)


# Aggregates


def _summarize(cursor: Cursor, first: Token) -> Summarize:
    aggregates = [_aggregate(cursor, first)]
    while cursor.take_mark(","):
        token = cursor.peek()
        if token.kind is not Kind.WORD:
            cursor.unexpected("a function after the comma", f"write one of {', '.join(_FUNCTIONS)}")
        cursor.take()
        if len(aggregates) == MAX_AGGREGATES:
            cursor.fail(f"there are more than {MAX_AGGREGATES} functions", token.span, "ask for fewer")
        aggregates.append(_aggregate(cursor, token))
    by: tuple[Field, ...] = ()
    if cursor.peek().says("by"):
        cursor.take()
        by = _fields(cursor, MAX_GROUPS)
    _check_names(cursor, aggregates, by)
    return Summarize(tuple(aggregates), by, Span(first.span.start, cursor.end))


def _aggregate(cursor: Cursor, token: Token) -> Aggregate:
    name = token.text.lower()
    op = _OPS.get(name)
    if op is None:
        close = [f"{word}()" for word in nearest(name, _OPS)]
        step = f"perhaps {' or '.join(close)} is meant" if close else f"there are {', '.join(_FUNCTIONS)}"
        cursor.fail(f"there is no function {token.shown}", token.span, step)
    step = f"write it as in {op}(bytes)"
    cursor.expect_mark("(", f"after {token.shown}", step)
    argument = _argument(cursor, op)
    cursor.expect_mark(")", f"after the field of {token.shown}", step)
    result = op.value if argument is None else f"{op}_{argument.name}"
    if cursor.peek().says("as"):
        cursor.take()
        result = cursor.expect_field("a name for the result after `as`").name
    return Aggregate(op, argument, result, Span(token.span.start, cursor.end))


def _argument(cursor: Cursor, op: AggregateOp) -> Field | None:
    token = cursor.peek()
    if token.marks(")"):
        if op is not AggregateOp.COUNT:
            cursor.fail(f"{op}() needs the name of a field", token.span, f"write it as in {op}(bytes)")
        return None
    if token.kind is Kind.WORD and token.text == "*":
        step = "leave it out: count() counts all records" if op is AggregateOp.COUNT else "name a field"
        cursor.fail("`*` is not a field", token.span, step)
    return cursor.expect_field()


def _check_names(cursor: Cursor, aggregates: list[Aggregate], by: tuple[Field, ...]) -> None:
    groups = {field.name for field in by}
    names: set[str] = set()
    for aggregate in aggregates:
        if aggregate.name in groups or aggregate.name in names:
            other = "a group" if aggregate.name in groups else "another result"
            reason = f"the result {shown(aggregate.name)} is called like {other}"
            cursor.fail(reason, aggregate.span, "give it another name with `as`")
        names.add(aggregate.name)
