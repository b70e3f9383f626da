"""Searches as the parser makes them, at random, from given words: what it would not make is left out (a number that is
no `Number`, a stage that names a field the rows before it do not have)."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st

from quarterdeck.search.language.ast import (
    Aggregate,
    AggregateOp,
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
    Op,
    Or,
    Regex,
    Search,
    Sort,
    SortKey,
    Stage,
    Summarize,
    Tail,
    Text,
    TimePoint,
    TimeRange,
    Uniq,
)
from quarterdeck.search.language.times import MAX_LENGTH_US, MAX_SECONDS

_ORDERS = [Op.LESS, Op.LESS_OR_EQUAL, Op.GREATER, Op.GREATER_OR_EQUAL]
_EQUALITIES = [Op.EQUAL, Op.NOT_EQUAL]
_MATCHES = [Op.MATCH, Op.NOT_MATCH]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What random searches are made of."""

    fields: st.SearchStrategy[str]
    words: st.SearchStrategy[str]
    """Without blanks, quotes, marks and wildcards; no numbers, and none of `and`, `or`, `not`, `~`."""
    phrases: st.SearchStrategy[str]
    """Any text."""
    numbers: st.SearchStrategy[str]
    """As they are written."""
    globs: st.SearchStrategy[str]
    """Words with wildcards; `*` alone too."""
    patterns: st.SearchStrategy[str]
    """Regular expressions that RE2 takes, without a backslash before a quote."""
    times: st.SearchStrategy[TimePoint]


def vocabulary(
    fields: Sequence[str],
    words: Sequence[str],
    *,
    phrases: Sequence[str] = ("a b",),
    numbers: Sequence[str] = ("0", "1", "-2.5"),
    globs: Sequence[str] = ("*",),
    patterns: Sequence[str] = ("a|b",),
    times: st.SearchStrategy[TimePoint] | None = None,
) -> Vocabulary:
    """A vocabulary of these."""
    given = (fields, words, phrases, numbers, globs, patterns)
    return Vocabulary(*(st.sampled_from(list(words)) for words in given), times=points if times is None else times)


points: st.SearchStrategy[TimePoint] = st.one_of(
    st.builds(TimePoint, st.integers(-MAX_SECONDS * 1_000_000 + 1, MAX_SECONDS * 1_000_000 - 1)),
    st.builds(TimePoint, st.integers(-MAX_LENGTH_US, MAX_LENGTH_US), st.just(True)),
)
"""All moments that can be written as numbers, and all lengths of time from now."""


# Conditions


def _numbers(words: Vocabulary) -> st.SearchStrategy[Number]:
    return words.numbers.map(lambda text: Number(text, Decimal(text)))


def _fields(words: Vocabulary) -> st.SearchStrategy[Field]:
    return st.builds(Field, words.fields)


def _texts(words: Vocabulary) -> st.SearchStrategy[Text]:
    return st.builds(Text, words.words) | st.builds(Text, words.phrases, st.just(True))


def terms(words: Vocabulary) -> st.SearchStrategy[Condition]:
    """Conditions without others within them."""
    texts, numbers, fields = _texts(words), _numbers(words), _fields(words)
    globs, regexes = st.builds(Glob, words.globs), st.builds(Regex, words.patterns)
    found = globs.filter(lambda glob: glob.pattern != "*")
    return st.one_of(
        st.just(Everything()),
        st.builds(Contains, texts | found | regexes),
        st.builds(Compare, fields, st.sampled_from(_EQUALITIES), texts | numbers | globs),
        st.builds(Compare, fields, st.sampled_from(_ORDERS), texts | numbers),
        st.builds(Compare, fields, st.sampled_from(_MATCHES), regexes),
        time_ranges(words),
    )


@st.composite
def time_ranges(draw: st.DrawFn, words: Vocabulary) -> TimeRange:
    """Ranges of times, open or not, that do not end before they begin."""
    start, end = draw(st.none() | words.times), draw(st.none() | words.times)
    if start and end and start.relative == end.relative and end.at_us < start.at_us:
        start, end = end, start
    return TimeRange(start, end)


def conditions(words: Vocabulary, *, max_terms: int = 8) -> st.SearchStrategy[Condition]:
    """Conditions of all kinds."""

    def wider(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, inner))

    return st.recursive(terms(words), wider, max_leaves=max_terms)


# Stages


@st.composite
def _aggregates(draw: st.DrawFn, fields: st.SearchStrategy[Field], names: st.SearchStrategy[str]) -> Aggregate:
    op = draw(st.sampled_from(AggregateOp))
    argument = draw(st.none() | fields) if op is AggregateOp.COUNT else draw(fields)
    default = op.value if argument is None else f"{op}_{argument.name}"
    return Aggregate(op, argument, draw(st.just(default) | names))


@st.composite
def stages(draw: st.DrawFn, words: Vocabulary, *, max_stages: int = 4) -> tuple[Stage, ...]:
    """Stages that fit after each other."""
    stages: list[Stage] = []
    columns: list[str] | None = None
    """Of the rows so far; None for records."""
    for _ in range(draw(st.integers(0, max_stages))):
        fields = _fields(words) if columns is None else st.builds(Field, st.sampled_from(columns))
        several = st.lists(fields, min_size=1, max_size=3, unique=True).map(tuple)
        match draw(st.integers(0, 6)):
            case 0:
                by = draw(st.just(()) | several)
                groups = {field.name for field in by}
                results = st.lists(_aggregates(fields, words.fields), min_size=1, max_size=3, unique_by=_name)
                aggregates = [found for found in draw(results) if found.name not in groups]
                if not aggregates:
                    continue
                stages.append(Summarize(tuple(aggregates), by))
                columns = [*(field.name for field in by), *(aggregate.name for aggregate in aggregates)]
            case 1:
                keys = draw(st.lists(st.builds(SortKey, fields, st.booleans()), min_size=1, max_size=3))
                stages.append(Sort(tuple(keys)))
            case 2:
                stages.append(Head(draw(st.integers(0, 20))))
            case 3:
                stages.append(Tail(draw(st.integers(0, 20))))
            case 4:
                kept = draw(several)
                stages.append(Cut(kept))
                columns = [field.name for field in kept]
            case 5:
                counted = draw(st.booleans()) and "count" not in (columns or ())
                stages.append(Uniq(counted))
                columns = [*columns, "count"] if counted and columns is not None else columns
            case _:
                stages.append(ListFields())
                columns = ["field", "count"]
    return tuple(stages)


def _name(aggregate: Aggregate) -> str:
    return aggregate.name


def searches(words: Vocabulary, *, max_terms: int = 8, max_stages: int = 4) -> st.SearchStrategy[Search]:
    """Searches of all kinds."""
    return st.builds(Search, conditions(words, max_terms=max_terms), stages(words, max_stages=max_stages))
