"""Lengths of time as expressions: where they end, how they print, what they come to, and what is refused."""

import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.rules.resolve_durations import resolve_durations
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import (
    Binary,
    BinaryOp,
    Call,
    DurationBinary,
    DurationCall,
    DurationExpr,
    DurationExtreme,
    DurationParen,
    DurationSigned,
    Expr,
    Extension,
    MatrixSelector,
    NumberLiteral,
    QueryLength,
    Subquery,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.duration_exprs import MAX_PARTS
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.printer import show

_STEP = DurationCall(QueryLength.STEP)
_RANGE = DurationCall(QueryLength.RANGE)
_LENGTHS = "number, duration, step(), or range()"


def _seconds(value: float) -> NumberLiteral:
    return NumberLiteral(value)


def _minutes(count: int) -> NumberLiteral:
    return NumberLiteral(60.0 * count, True)


def _minus(lhs: DurationExpr, minutes: int) -> DurationExpr:
    return DurationBinary(BinaryOp.SUB, lhs, _minutes(minutes))


def _range(query: str) -> DurationExpr | None:
    tree = parse(query)
    assert isinstance(tree, MatrixSelector | Subquery)
    return tree.range_expr


@pytest.mark.parametrize(
    "query, length",
    [
        ("foo[5m * 2]", DurationBinary(BinaryOp.MUL, _minutes(5), _seconds(2))),
        ("foo[(5m)]", DurationParen(_minutes(5))),
        ("foo[((step()))]", DurationParen(_STEP)),
        ("foo[STEP()]", _STEP),
        ("foo[range()]", _RANGE),
        ("foo[-step()]", DurationSigned(True, _STEP)),
        ("foo[+step()]", _STEP),
        ("foo[+(5m)]", DurationParen(_minutes(5))),
        ("foo[step():1m]", _STEP),
        ("foo[(step()):]", DurationParen(_STEP)),
        ("foo[min_of(step(), 1m)]", DurationExtreme(False, _STEP, _minutes(1))),
        ("foo[Max_Of(1m, range())]", DurationExtreme(True, _minutes(1), _RANGE)),
        (
            "foo[1m + 2m * 3]",
            DurationBinary(BinaryOp.ADD, _minutes(1), DurationBinary(BinaryOp.MUL, _minutes(2), _seconds(3))),
        ),
        (
            "foo[1m - 2m - 3m]",
            DurationBinary(BinaryOp.SUB, DurationBinary(BinaryOp.SUB, _minutes(1), _minutes(2)), _minutes(3)),
        ),
        (
            "foo[2 ^ 3 ^ 2]",
            DurationBinary(BinaryOp.POW, _seconds(2), DurationBinary(BinaryOp.POW, _seconds(3), _seconds(2))),
        ),
        ("foo[-2 ^ 2]", DurationSigned(True, DurationBinary(BinaryOp.POW, _seconds(2), _seconds(2)))),
        ("foo[(-2) ^ 2]", DurationBinary(BinaryOp.POW, DurationParen(_seconds(-2)), _seconds(2))),
        ("foo[-2 * 3]", DurationBinary(BinaryOp.MUL, _seconds(-2), _seconds(3))),
        ("foo[1m:1m]", None),
        ("foo[+5m]", None),
        ("foo[--5m]", None),
    ],
)
def test_a_length_between_brackets_is_a_whole_expression(query: str, length: DurationExpr | None) -> None:
    assert _range(query) == length


@pytest.mark.parametrize(
    "query, offset, is_whole",
    [
        ("foo offset 5m * 2", 300_000, False),
        ("foo offset -2 ^ 2", -2000, False),
        ("foo offset step() * 2", _STEP, False),
        ("foo offset -step() * 2", DurationSigned(True, _STEP), False),
        ("foo offset min_of(1m, 2m) + 1", DurationExtreme(False, _minutes(1), _minutes(2)), False),
        ("foo offset -(5m) + 1", DurationSigned(True, DurationParen(_minutes(5))), False),
        ("foo offset (5m) + 1", DurationBinary(BinaryOp.ADD, DurationParen(_minutes(5)), _seconds(1)), True),
        ("foo offset +(5m) + 1", DurationParen(_minutes(5)), False),
        ("foo offset - -5m", 300_000, True),
        ("foo offset -+5m", -300_000, True),
        ("foo offset - -5m * 2", DurationBinary(BinaryOp.MUL, _minutes(5), _seconds(2)), True),
        ("foo offset +-2 ^ 2", DurationSigned(True, DurationBinary(BinaryOp.POW, _seconds(2), _seconds(2))), True),
        ("foo offset - -step() - -1m == 1", _minus(DurationSigned(True, DurationSigned(True, _STEP)), -1), False),
        ("foo offset (5m) == 1", DurationParen(_minutes(5)), False),
        ("foo offset (5m + 1)", DurationParen(DurationBinary(BinaryOp.ADD, _minutes(5), _seconds(1))), True),
    ],
)
def test_an_offset_ends_as_soon_as_it_can(query: str, offset: int | DurationExpr, is_whole: bool) -> None:
    tree = parse(query)
    selector = tree if is_whole else tree.lhs if isinstance(tree, Binary) else None
    assert isinstance(selector, VectorSelector)
    assert (selector.offset_expr or selector.offset_ms) == offset


@pytest.mark.parametrize(
    "query, shown",
    [
        ("foo[300*2]", "foo[300 * 2]"),
        ("foo[60m+step()]", "foo[1h + step()]"),
        ("foo[((1m))]", "foo[(1m)]"),
        ("foo[- -step()]", "foo[--step()]"),
        ("foo[MIN_OF(1m,range()):step()/2]", "foo[min_of(1m, range()):step() / 2]"),
        ("foo offset -(1m+2m)", "foo offset -(1m + 2m)"),
        ("foo @ 5 offset (1m) smoothed + 1", "foo @ 5.000 smoothed offset +(1m) + 1"),
        ("foo offset +(1m) + 1", "foo offset +(1m) + 1"),
        ("-foo offset +(1m) == 1", "-foo offset (1m) == 1"),
        ("1 - -foo[1m:] offset +(1m) % 2", "1 - -foo[1m:] offset +(1m) % 2"),
        ("foo[+step()] offset +(1m)", "foo[step()] offset (1m)"),
        ("foo offset - -1m * 2 @ 5 + 1", "foo offset ++1m * 2 @ 5.000 + 1"),
        ("foo offset -+-1m * 2", "foo offset ++1m * 2"),
        ("foo offset +-2 ^ 2 @ 5 + 1", "foo offset +-2 ^ 2 @ 5.000 + 1"),
        ("foo offset - -step()", "foo offset --step()"),
        ("foo offset (1m) * 2 smoothed + 1", "foo offset (1m) * 2 smoothed + 1"),
        ("rate(foo[1m]offset 1m anchored)", "rate(foo[1m] anchored offset 1m)"),
        ("foo anchored[1m]", "foo[1m] anchored"),
        ("foo smoothed[1m:]@5", "foo smoothed[1m:] @ 5.000"),
    ],
)
def test_a_length_prints_in_one_form_that_reads_as_the_same_tree(query: str, shown: str) -> None:
    tree = parse(query)
    assert show(tree) == shown
    assert parse(shown) == tree


def test_every_part_of_a_length_knows_its_place() -> None:
    query = "foo[1m + min_of(step(), -((2m)))]"
    tree = parse(query)
    assert isinstance(tree, MatrixSelector)
    assert isinstance(tree.range_expr, DurationBinary)
    extreme = tree.range_expr.rhs
    assert isinstance(extreme, DurationExtreme)
    assert isinstance(extreme.rhs, DurationSigned)
    parts = [tree.range_expr, tree.range_expr.lhs, extreme, extreme.lhs, extreme.rhs, extreme.rhs.inner]
    assert [_text(query, part.span) for part in parts] == [
        "1m + min_of(step(), -((2m)))",
        "1m",
        "min_of(step(), -((2m)))",
        "step()",
        "-((2m))",
        "((2m))",
    ]


def _text(query: str, span: Span) -> str:
    return query[span.start : span.end]


def _resolved(query: str, range_ms: int = 3_600_000, step_ms: int = 15_000) -> Expr:
    return resolve_durations(parse(query), query, range_ms, step_ms)


@pytest.mark.parametrize(
    "length, expected_ms",
    [
        ("26m + 4m", 1_800_000),
        ("1.5 * 2m", 180_000),
        ("1h / 2", 1_800_000),
        ("1h30m % 1h", 1_800_000),
        ("2 ^ 3", 8000),
        ("-(-1m)", 60_000),
        ("step() + 1ms", 15_001),
        ("range() / 60", 60_000),
        ("min_of(step(), 10s)", 10_000),
        ("max_of(step(), 10s)", 15_000),
        ("2s / 3", 666),
    ],
)
def test_a_length_is_worked_out_in_seconds_and_cut_to_milliseconds(length: str, expected_ms: int) -> None:
    for query in (f"foo[{length}]", f"foo[{length}:]"):
        tree = _resolved(query)
        assert isinstance(tree, MatrixSelector | Subquery)
        assert (tree.range_ms, tree.range_expr) == (expected_ms, None)
    subquery = _resolved(f"foo[1h:{length}]")
    assert isinstance(subquery, Subquery)
    assert (subquery.step_ms, subquery.step_expr) == (expected_ms, None)
    moved = _resolved(f"foo offset -({length})")
    assert moved == parse(f"foo offset -{expected_ms}ms")


def test_lengths_are_worked_out_wherever_they_stand() -> None:
    query = "-topk(scalar(a offset (1m+1m)), (sum(rate(b[step()*4] offset (-1m*2)))[1h+1h:step()] offset (1m*3)) + c)"
    plain = "-topk(scalar(a offset 2m), (sum(rate(b[1m] offset -2m))[2h:15s] offset 3m) + c)"
    assert _resolved(query) == parse(plain)


def test_a_tree_without_expressions_of_length_stays_the_same_object() -> None:
    tree = parse("sum(rate(foo[5m] offset 1m)) / 2")
    assert resolve_durations(tree, "", 0, 0) is tree


@pytest.mark.parametrize(
    "query, column, reason",
    [
        ("foo[5m *]", 9, f'unexpected "]" in subquery or range selector, expected {_LENGTHS}'),
        ("foo[(5m]", 8, f'unexpected "]" in subquery or range selector, expected {_LENGTHS}'),
        ("foo[step]", 9, f'unexpected "]" in subquery or range selector, expected {_LENGTHS}'),
        ("foo[step(1)]", 10, f'unexpected number "1" in subquery or range selector, expected {_LENGTHS}'),
        ("foo[min_of(1m)]", 14, f'unexpected ")" in subquery or range selector, expected {_LENGTHS}'),
        ("foo[min(1m, 2m)]", 5, "unexpected character in duration expression: 'm'"),
        ("foo[1m + bar]", 10, "unexpected character: 'b', expected ':'"),
        ("foo[5m:1m -]", 12, 'unexpected "]" in subquery selector, expected number, duration, step(), range(), or "]"'),
        ("foo offset (1m) + bar", 19, f'unexpected identifier "bar" in offset, expected {_LENGTHS}'),
        ("foo offset --", 14, f"unexpected end of input in offset, expected {_LENGTHS}"),
        ("foo offset step", 16, f"unexpected end of input in offset, expected {_LENGTHS}"),
        ("foo[5m / 0]", 8, "division by zero"),
        ("foo[5m % 0s]", 8, "modulo by zero"),
        ("foo[1e20 * 0]", 5, "duration out of range"),
        ("foo offset (NaN)", 13, "duration out of range"),
        ("foo offset (1m) [5m]", 17, "no offset modifiers allowed before range"),
        ("foo offset (1m) @ 5 offset 1m", 1, "offset may not be set multiple times"),
        ("foo[" + "1m+" * 60 + "1m]", 5 + 3 * MAX_PARTS, f"a duration has at most {MAX_PARTS} parts"),
    ],
)
def test_a_wrong_length_is_refused_at_its_place(query: str, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query)
    assert caught.value.reason == f"1:{column}: parse error: {reason}"


@pytest.mark.parametrize(
    "query, column, reason",
    [
        ("foo[1m - 2m]", 5, "duration must be greater than 0"),
        ("foo[step() - 15s]", 5, "duration must be greater than 0"),
        ("foo[1h:-step()]", 8, "duration must be greater than 0"),
        ("foo[1s / 3000]", 5, "duration must be at least 1ms"),
        ("foo[1m / (step() - 15)]", 5, "division by zero"),
        ("foo[1m % (step() - 15)]", 5, "modulo by zero"),
        ("foo[10 ^ 300]", 5, "duration is out of range"),
        ("foo offset ((-8) ^ 0.5)", 12, "duration is out of range"),
    ],
)
def test_a_length_that_comes_to_nothing_useful_is_refused_at_its_place(query: str, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        _resolved(query)
    assert caught.value.reason == f"1:{column}: parse error: {reason}"


@pytest.mark.parametrize(
    "query, column, reason",
    [
        ("foo[5m * 2]", 5, "experimental duration expression is not enabled"),
        ("foo[step()]", 5, "experimental duration expression is not enabled"),
        ("foo offset (5m)", 13, "experimental duration expression is not enabled"),
        ("rate(foo[5m] anchored)", 6, "anchored modifier is experimental and not enabled"),
        ("foo smoothed", 1, "smoothed modifier is experimental and not enabled"),
    ],
)
def test_without_the_switch_experimental_syntax_is_refused(query: str, column: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(query, experimental=False)
    assert caught.value.reason == f"1:{column}: parse error: {reason}"


def test_anchored_and_smoothed_belong_to_the_selector() -> None:
    rate = parse("rate(foo[5m] anchored @ 5)")
    assert isinstance(rate, Call)
    (matrix,) = rate.args
    assert isinstance(matrix, MatrixSelector)
    assert (matrix.selector.extension, matrix.selector.at) == (Extension.ANCHORED, 5000)
    smoothed = parse("foo smoothed")
    assert isinstance(smoothed, VectorSelector)
    assert smoothed.extension is Extension.SMOOTHED
