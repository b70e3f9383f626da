"""Queries and the trees they stand for. Places are ignored here; `test_positions.py` has them."""

import pytest

from quarterdeck.metrics.promql.syntax.ast import (
    AggregateOp,
    Aggregation,
    AtAnchor,
    Binary,
    BinaryOp,
    Call,
    Cardinality,
    Expr,
    Matcher,
    MatchOp,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.parser import parse


def _number(value: float) -> NumberLiteral:
    return NumberLiteral(value)


def _metric(name: str, *matchers: Matcher, offset_ms: int = 0, at: int | AtAnchor | None = None) -> VectorSelector:
    return VectorSelector(name, (*matchers, Matcher("__name__", MatchOp.EQUAL, name)), offset_ms, at)


def _nameless(*matchers: Matcher) -> VectorSelector:
    return VectorSelector(None, matchers)


def _equal(name: str, value: str) -> Matcher:
    return Matcher(name, MatchOp.EQUAL, value)


def _joined(op: BinaryOp, lhs: Expr, rhs: Expr, matching: VectorMatching | None = VectorMatching()) -> Binary:
    return Binary(op, lhs, rhs, matching=matching)


_ONE, _TWO, _THREE = _number(1), _number(2), _number(3)
_FOO, _BAR, _BAZ = _metric("foo"), _metric("bar"), _metric("baz")
_SETS = VectorMatching(Cardinality.MANY_TO_MANY)

PRECEDENCE: list[tuple[str, Expr]] = [
    ("1 + 2 * 3", _joined(BinaryOp.ADD, _ONE, _joined(BinaryOp.MUL, _TWO, _THREE, None), None)),
    ("1 - 2 - 3", _joined(BinaryOp.SUB, _joined(BinaryOp.SUB, _ONE, _TWO, None), _THREE, None)),
    ("1 ^ 2 ^ 3", _joined(BinaryOp.POW, _ONE, _joined(BinaryOp.POW, _TWO, _THREE, None), None)),
    ("1 atan2 2 % 3", _joined(BinaryOp.MOD, _joined(BinaryOp.ATAN2, _ONE, _TWO, None), _THREE, None)),
    ("-1^2", Unary(True, _joined(BinaryOp.POW, _ONE, _TWO, None))),
    ("-1^-2", Unary(True, _joined(BinaryOp.POW, _ONE, _number(-2), None))),
    ("2^-1^2", _joined(BinaryOp.POW, _TWO, Unary(True, _joined(BinaryOp.POW, _ONE, _TWO, None)), None)),
    ("-1*2", _joined(BinaryOp.MUL, _number(-1), _TWO, None)),
    ("--1", _ONE),
    ("-+-foo", Unary(True, Unary(False, Unary(True, _FOO)))),
    ("-(1)", Unary(True, Paren(_ONE))),
    ("1 < bool 2 - 1", Binary(BinaryOp.LT, _ONE, _joined(BinaryOp.SUB, _TWO, _ONE, None), True)),
    (
        "foo and bar unless baz or foo",
        _joined(
            BinaryOp.OR,
            _joined(BinaryOp.UNLESS, _joined(BinaryOp.AND, _FOO, _BAR, _SETS), _BAZ, _SETS),
            _FOO,
            _SETS,
        ),
    ),
    ("foo == bar </ 1", _joined(BinaryOp.TRIM_UPPER, _joined(BinaryOp.EQ, _FOO, _BAR), _ONE, None)),
    ("foo >/ 1 + 2", _joined(BinaryOp.TRIM_LOWER, _FOO, _joined(BinaryOp.ADD, _ONE, _TWO, None), None)),
]

MATCHING: list[tuple[str, VectorMatching | None]] = [
    ("foo * bar", VectorMatching()),
    ("foo * 1", None),
    ("1 + on() group_left foo", None),
    ("foo * on(a, b) bar", VectorMatching(on=True, labels=("a", "b"))),
    ("foo * ignoring(a,) bar", VectorMatching(labels=("a",))),
    ("foo and on() bar", VectorMatching(Cardinality.MANY_TO_MANY, on=True)),
    ("foo / on(a) group_left bar", VectorMatching(Cardinality.MANY_TO_ONE, True, ("a",))),
    ("foo / ON(a) GROUP_RIGHT(x, 'y.z') bar", VectorMatching(Cardinality.ONE_TO_MANY, True, ("a",), ("x", "y.z"))),
    ("foo + fill(0) bar", VectorMatching(fill_left=0.0, fill_right=0.0)),
    ("foo + fill_right(-1) fill_left(+2) bar", VectorMatching(fill_left=2.0, fill_right=-1.0)),
    ("foo + on(a) group_left fill_left(5m) bar", VectorMatching(Cardinality.MANY_TO_ONE, True, ("a",), (), 300.0)),
    ("foo + fill", VectorMatching()),
]

SELECTORS: list[tuple[str, Expr]] = [
    ("foo:bar{}", _metric("foo:bar")),
    (":foo", _metric(":foo")),
    ('foo{NaN="1",}', _metric("foo", _equal("NaN", "1"))),
    (
        "foo{a='b', c!=\"d\", e=~`f|g`, h!~'i'}",
        _metric(
            "foo",
            _equal("a", "b"),
            Matcher("c", MatchOp.NOT_EQUAL, "d"),
            Matcher("e", MatchOp.REGEX, "f|g"),
            Matcher("h", MatchOp.NOT_REGEX, "i"),
        ),
    ),
    ('{"some.metric", "label.x"="y"}', _nameless(_equal("__name__", "some.metric"), _equal("label.x", "y"))),
    ('{a="b", "foo", c="d"}', _nameless(_equal("a", "b"), _equal("__name__", "foo"), _equal("c", "d"))),
    ('{"bar", __name__="baz"}', _nameless(_equal("__name__", "bar"), _equal("__name__", "baz"))),
    ('{"bar", "baz"}', _nameless(_equal("__name__", "bar"), _equal("__name__", "baz"))),
    ('{__name__="foo"}', _nameless(_equal("__name__", "foo"))),
    ("{}", VectorSelector(None, ())),
    ("foo{by='1', sum='2'}", _metric("foo", _equal("by", "1"), _equal("sum", "2"))),
    ("foo # comment\n{ # another\n}", _FOO),
]

RANGES: list[tuple[str, Expr]] = [
    ("foo[5m]", MatrixSelector(_FOO, 300_000)),
    ("foo[ 300 ]", MatrixSelector(_FOO, 300_000)),
    ("foo[+4.018]", MatrixSelector(_FOO, 4018)),
    ("foo[1h30m:]", Subquery(_FOO, 5_400_000, None)),
    ("foo[5m:10]", Subquery(_FOO, 300_000, 10_000)),
    ("foo[5m : 1m]", Subquery(_FOO, 300_000, 60_000)),
    ("foo offset 60", _metric("foo", offset_ms=60_000)),
    ("foo offset -1m", _metric("foo", offset_ms=-60_000)),
    ("foo offset 1m * 2", _joined(BinaryOp.MUL, _metric("foo", offset_ms=60_000), _TWO, None)),
    ("-foo offset 1m", Unary(True, _metric("foo", offset_ms=60_000))),
    ("foo @ 3.3335", _metric("foo", at=3334)),
    ("foo @ -3.3335", _metric("foo", at=-3334)),
    ("foo @ 1m", _metric("foo", at=60_000)),
    ("foo @ start()", _metric("foo", at=AtAnchor.START)),
    ("foo @ END() offset 1m", _metric("foo", at=AtAnchor.END, offset_ms=60_000)),
    ("foo offset 1m @ 5", _metric("foo", at=5000, offset_ms=60_000)),
    ("foo[5m] offset 1m @ 5", MatrixSelector(_metric("foo", at=5000, offset_ms=60_000), 300_000)),
    ("foo[5m:] @ 5 offset 1m", Subquery(_FOO, 300_000, None, 60_000, 5000)),
    ("foo offset 1m [5m:]", Subquery(_metric("foo", offset_ms=60_000), 300_000, None)),
    ("(foo)[5m:][1m:]", Subquery(Subquery(Paren(_FOO), 300_000, None), 60_000, None)),
]

CALLS: list[tuple[str, Expr]] = [
    ("time()", Call("time", ())),
    ("start()", Call("start", ())),
    ("max_of(1, step())", Call("max_of", (_ONE, Call("step", ())))),
    ("rate(foo[5m])", Call("rate", (MatrixSelector(_FOO, 300_000),))),
    ('label_join(foo, "a", "b")', Call("label_join", (_FOO, StringLiteral("a"), StringLiteral("b")))),
    ("sum(foo)", Aggregation(AggregateOp.SUM, _FOO)),
    ("SUM BY (a, b,) (foo)", Aggregation(AggregateOp.SUM, _FOO, None, ("a", "b"))),
    ("sum(foo) without (a)", Aggregation(AggregateOp.SUM, _FOO, None, ("a",), True)),
    ("sum without () (foo)", Aggregation(AggregateOp.SUM, _FOO, None, (), True)),
    ('sum by ("a.b", a:b) (foo)', Aggregation(AggregateOp.SUM, _FOO, None, ("a.b", "a:b"))),
    (
        "sum by (and, by, avg, offset, bool, start, atan2, On, max_of) (foo)",
        Aggregation(
            AggregateOp.SUM, _FOO, None, ("and", "by", "avg", "offset", "bool", "start", "atan2", "On", "max_of")
        ),
    ),
    ("topk(1, foo)", Aggregation(AggregateOp.TOPK, _FOO, _ONE)),
    ('count_values("v", foo)', Aggregation(AggregateOp.COUNT_VALUES, _FOO, StringLiteral("v"))),
    ("sum(sum)", Aggregation(AggregateOp.SUM, _metric("sum"))),
]

WORDS = [
    *("sum", "avg", "topk", "limitk", "by", "without", "offset", "start", "end", "step", "range", "and", "or"),
    *("unless", "anchored", "smoothed", "fill", "Fill_left", "SUM", "min_of", "MAX_OF", "time"),
]


@pytest.mark.parametrize("query, tree", [*PRECEDENCE, *SELECTORS, *RANGES, *CALLS])
def test_a_query_becomes_its_tree(query: str, tree: Expr) -> None:
    assert parse(query) == tree


@pytest.mark.parametrize("query, matching", MATCHING)
def test_how_vectors_match_is_what_was_written(query: str, matching: VectorMatching | None) -> None:
    tree = parse(query)
    assert isinstance(tree, Binary)
    assert tree.matching == matching


@pytest.mark.parametrize("word", WORDS)
def test_words_of_the_language_can_be_names_of_metrics(word: str) -> None:
    assert parse(word) == _metric(word)
    assert parse(f"{word}{{}} + {word}") == _joined(BinaryOp.ADD, _metric(word), _metric(word))


def test_matchers_stay_in_the_order_in_which_they_were_written() -> None:
    tree = parse('{z="1", "foo", a="2"}')
    assert isinstance(tree, VectorSelector)
    assert [matcher.name for matcher in tree.matchers] == ["z", "__name__", "a"]
