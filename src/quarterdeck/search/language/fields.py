"""The fields that a search names: which of them are fields of records, and whether the others are there."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from quarterdeck.search.language.ast import (
    And,
    Compare,
    Condition,
    Contains,
    Cut,
    Everything,
    Field,
    Head,
    ListFields,
    Not,
    Or,
    Search,
    Sort,
    Stage,
    Summarize,
    Tail,
    TimeRange,
    Uniq,
)
from quarterdeck.search.language.errors import SearchSyntaxError, shown

COUNT = "count"
"""What `uniq -c` and `fields` call how often."""
FIELD = "field"
"""What `fields` calls a name."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names that the name may be a misspelling of, the likeliest first.

    >>> nearest("Levl", ["time", "level", "label"])
    ['level', 'label']
    """
    by_folded: dict[str, list[str]] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), []).append(candidate)
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3)
    return [candidate for folded in close for candidate in by_folded[folded]][:3]


def referenced_fields(search: Search) -> tuple[Field, ...]:
    """The fields of records that the condition and the stages read, each once, in order of appearance.

    What comes after the first summary reads the summary's rows, and the count of `uniq -c` is no field of a record.
    """
    fields: dict[Field, None] = dict.fromkeys(_condition_fields(search.condition))
    counted = False
    for stage in search.stages:
        read = stage_fields(stage)
        fields.update(dict.fromkeys(field for field in read if not (counted and field.name == COUNT)))
        if isinstance(stage, Summarize | ListFields):
            break
        counted = counted or (isinstance(stage, Uniq) and stage.counted)
    return tuple(fields)


def _condition_fields(condition: Condition) -> Iterator[Field]:
    match condition:
        case Compare():
            yield condition.field
        case And() | Or():
            for part in condition.parts:
                yield from _condition_fields(part)
        case Not():
            yield from _condition_fields(condition.part)
        case Everything() | Contains() | TimeRange():
            pass
        case _:
            assert_never(condition)


def stage_fields(stage: Stage) -> tuple[Field, ...]:
    """The fields that a stage reads of the rows before it."""
    match stage:
        case Summarize():
            arguments = (aggregate.argument for aggregate in stage.aggregates)
            return (*(field for field in arguments if field is not None), *stage.by)
        case Sort():
            return tuple(key.field for key in stage.keys)
        case Cut():
            return stage.fields
        case Head() | Tail() | Uniq() | ListFields():
            return ()
        case _:
            assert_never(stage)


def check_stages(search: Search) -> None:
    """SearchSyntaxError when a stage names a field that the rows before it are known not to have."""
    columns: tuple[str, ...] | None = None
    for stage in search.stages:
        if columns is not None:
            _check_fields(search, stage_fields(stage), columns)
            if isinstance(stage, Uniq) and stage.counted and COUNT in columns:
                reason = f"the rows have a field `{COUNT}` already, as uniq -c would call its own"
                step = "name the other one differently with `as`, or leave out -c"
                raise SearchSyntaxError(reason, search.text, stage.span, step)
        columns = _columns_after(stage, columns)


def _columns_after(stage: Stage, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The fields of the rows that come out of a stage; None while they are those of records, whichever these have."""
    match stage:
        case Summarize():
            return (*(field.name for field in stage.by), *(aggregate.name for aggregate in stage.aggregates))
        case ListFields():
            return (FIELD, COUNT)
        case Cut():
            return tuple(field.name for field in stage.fields)
        case Uniq():
            return (*columns, COUNT) if columns is not None and stage.counted else columns
        case Sort() | Head() | Tail():
            return columns
        case _:
            assert_never(stage)


def _check_fields(search: Search, fields: Iterable[Field], columns: Sequence[str]) -> None:
    known = frozenset(columns)
    for field in fields:
        if not _is_there(field.name, known):
            reason = f"the stage before leaves no field {shown(field.name)}"
            there = ", ".join(shown(column) for column in columns[:20]) + (", ..." if len(columns) > 20 else "")
            raise SearchSyntaxError(reason, search.text, field.span, f"there is {there}")


def _is_there(name: str, columns: frozenset[str]) -> bool:
    """Whether rows with these columns may have the field: it is one of them, or within one that is an object."""
    dots = (place for place, char in enumerate(name) if char == ".")
    return name in columns or any(name[:dot] in columns for dot in dots)
