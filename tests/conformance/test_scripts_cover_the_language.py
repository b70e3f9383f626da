"""Our own scripts exercise the whole language: each function, aggregation, operator, matching form and modifier.

Only evals that expect an answer count: one that expects a refusal says nothing about what the feature does.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias, assert_never

import pytest

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.syntax.ast import (
    AggregateOp,
    Aggregation,
    At,
    AtAnchor,
    Binary,
    BinaryOp,
    Call,
    Cardinality,
    Expr,
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
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.conformance import files, language
from tests.conformance.script import Eval, ExpectedFailure

Feature: TypeAlias = tuple[str, ...]
"""What a query uses, the most general word first: `("aggregation", "sum", "by")`."""

FUNCTIONS_LEFT_OUT: Final = {
    "integral": "experimental, and not supported yet",
}

TIMED: Final = ("instant vector", "range vector", "subquery")
"""What may have an offset and an `@`."""


def parts(expr: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of."""
    yield expr
    match expr:
        case NumberLiteral() | StringLiteral() | VectorSelector() | MatrixSelector():
            return
        case Paren() | Unary() | Subquery():
            yield from parts(expr.expr)
        case Binary():
            yield from parts(expr.lhs)
            yield from parts(expr.rhs)
        case Aggregation():
            if expr.parameter is not None:
                yield from parts(expr.parameter)
            yield from parts(expr.expr)
        case Call():
            for argument in expr.args:
                yield from parts(argument)
        case _:
            assert_never(expr)


def features(part: Expr) -> Iterator[Feature]:
    """What one part uses, without the parts it is made of."""
    match part:
        case NumberLiteral():
            yield "literal", "duration" if part.as_duration else "number"
        case StringLiteral():
            yield "literal", "string"
        case Paren():
            pass
        case Unary():
            yield "sign", "-" if part.negative else "+"
        case Binary():
            yield from _binary(part)
        case Aggregation():
            how = "without" if part.without else "by" if part.grouping else "all"
            yield "aggregation", part.op, how
        case Call():
            yield "function", part.function
            if (most := FUNCTIONS[part.function].most) != FUNCTIONS[part.function].fewest:
                yield "arguments", part.function, "all" if len(part.args) == most else "fewer"
        case VectorSelector():
            yield from (("matcher", matcher.op) for matcher in part.matchers)
            yield from _times("instant vector", part.offset_ms, part.at)
        case MatrixSelector():
            yield from (("matcher", matcher.op) for matcher in part.selector.matchers)
            yield from _times("range vector", part.selector.offset_ms, part.selector.at)
        case Subquery():
            yield "subquery", "default step" if part.step_ms is None else "own step"
            yield from _times("subquery", part.offset_ms, part.at)
        case _:
            assert_never(part)


def _times(what: str, offset_ms: int, at: At | None) -> Iterator[Feature]:
    if offset_ms:
        yield "offset", what, "back" if offset_ms > 0 else "ahead"
    if at is not None:
        yield "@", what, at if isinstance(at, AtAnchor) else "time"
        if offset_ms:
            yield "@ and offset", what


def _binary(part: Binary) -> Iterator[Feature]:
    matching = part.matching
    if matching is None:
        yield "operator", part.op, "with a number"
        if part.return_bool:
            yield "bool", part.op
        return
    yield "operator", part.op, "between vectors"
    if part.op.is_set:
        yield "set matching", part.op, _labels(matching)
        return
    kind = "bool" if part.return_bool else "comparison" if part.op.is_comparison else "arithmetic"
    taking = "taking labels" if matching.include else "taking none"
    yield "matching", matching.cardinality, _labels(matching), taking
    yield "matching of", kind, matching.cardinality, "on" if matching.on else "ignoring"
    match matching.fill_left, matching.fill_right:
        case None, None:
            pass
        case float(), None:
            yield "fill", "left", matching.cardinality
        case None, _:
            yield "fill", "right", matching.cardinality
        case _:
            yield "fill", "both", matching.cardinality


def _labels(matching: VectorMatching) -> str:
    if matching.on:
        return "on labels" if matching.labels else "on none"
    return "ignoring labels" if matching.labels else "on all"


def wanted() -> Iterator[Feature]:
    """Everything that the scripts must exercise."""
    for name, function in FUNCTIONS.items():
        if name in FUNCTIONS_LEFT_OUT:
            continue
        yield "function", name
        if function.variadic:
            yield "arguments", name, "fewer"
            if function.variadic == 1:
                yield "arguments", name, "all"
    for aggregation in AggregateOp:
        yield from (("aggregation", aggregation, how) for how in ("all", "by", "without"))
    for op in BinaryOp:
        yield "operator", op, "between vectors"
        if op.is_set:
            yield from (
                ("set matching", op, labels) for labels in ("on all", "on labels", "on none", "ignoring labels")
            )
        else:
            yield "operator", op, "with a number"
        if op.is_comparison:
            yield "bool", op
    yield from (("matching", "one-to-one", on, "taking none") for on in ("on all", "on none"))
    for cardinality in (Cardinality.ONE_TO_ONE, Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY):
        for on in ("on labels", "ignoring labels"):
            yield "matching", cardinality, on, "taking none"
            if cardinality is not Cardinality.ONE_TO_ONE:
                yield "matching", cardinality, on, "taking labels"
        for kind in ("arithmetic", "comparison", "bool"):
            yield from (("matching of", kind, cardinality, on) for on in ("on", "ignoring"))
        yield from (("fill", side, cardinality) for side in ("left", "right", "both"))
    for what in TIMED:
        yield from (("offset", what, way) for way in ("back", "ahead"))
        yield from (("@", what, at) for at in ("time", AtAnchor.START, AtAnchor.END))
        yield "@ and offset", what
    yield from (("matcher", match) for match in MatchOp)
    yield from (("subquery", step) for step in ("default step", "own step"))
    yield from (("sign", sign) for sign in "+-")
    yield from (("literal", kind) for kind in ("number", "duration", "string"))


def used(evals: list[Eval]) -> set[Feature]:
    """What the evals exercise, those left aside that expect to be refused."""
    answered = [one.query for one in evals if not isinstance(one.expected, ExpectedFailure)]
    return {feature for query in answered for part in parts(parse(query)) for feature in features(part)}


def own_evals() -> list[Eval]:
    return [one for path in sorted(files.OWN_FOLDER.glob("*.test")) for one in files.read(path).evals]


def test_every_feature_of_the_language_is_exercised_by_a_script_of_our_own() -> None:
    missing = sorted(" ".join(feature) for feature in set(wanted()) - used(own_evals()))
    assert not missing, f"no eval in {files.OWN_FOLDER.name}/ exercises:\n" + "\n".join(missing)


@pytest.mark.parametrize("name", FUNCTIONS_LEFT_OUT)
def test_a_function_is_left_out_only_while_no_script_exercises_it(name: str) -> None:
    assert name in FUNCTIONS
    assert ("function", name) not in used(own_evals()), f"{name} is exercised: take it off FUNCTIONS_LEFT_OUT"


def test_what_is_expected_to_be_refused_does_not_count_as_exercised() -> None:
    script = language.parse("eval instant at 0m topk(NaN, x)\n  expect fail\n\neval instant at 0m sum(x)\n")
    assert used(list(script.evals)) == {("aggregation", "sum", "all"), ("matcher", "=")}


def test_every_query_of_our_own_that_expects_an_answer_parses() -> None:
    broken: list[str] = []
    for path in sorted(files.OWN_FOLDER.glob("*.test")):
        for one in files.read(path).evals:
            try:
                parse(one.query)
            except ParseError as error:
                if not isinstance(one.expected, ExpectedFailure):
                    broken.append(f"{path.name}:{one.line}: {error.reason}")
    assert not broken, "\n".join(broken)
