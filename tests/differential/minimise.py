"""The smallest part of a query that still answers differently."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.printer import show
from tests.differential.cases import Case
from tests.differential.known import Finding
from tests.differential.trees import children, parts, with_child


def minimised(finding: Finding, check: Callable[[Case], Finding | None]) -> Finding:
    """The same finding, or one of a part of the query, at one time if that is enough."""
    smallest = finding
    while True:
        for case in sorted(_smaller(smallest), key=lambda case: len(case.text)):
            found = check(case)
            if found is not None:
                smallest = found
                break
        else:
            break
    for time_ms in sorted({time_ms for _, time_ms in smallest.difference.cells}):
        found = None if smallest.case.instant else check(Case(smallest.case.text, time_ms // 1000, time_ms // 1000, 0))
        if found is not None:
            return found
    return smallest


def _smaller(finding: Finding) -> Iterator[Case]:
    """The same query with a part in place of the whole, of the root or of a direct part of it."""
    if finding.tree is None:
        return
    case, length = finding.case, len(show(finding.tree))
    for part in parts(finding.tree):
        if isinstance(part, ast.StringLiteral | ast.MatrixSelector | ast.Subquery):
            continue
        text = show(part)
        if len(text) < length:
            yield replace(case, text=text)
    for shorter in _shortened(finding.tree):
        text = show(shorter)
        if len(text) < length:
            yield replace(case, text=text)


def _shortened(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression with one of those within it replaced by a part of that one, or without its offset and `@`."""
    if isinstance(expr, ast.VectorSelector | ast.Subquery) and (expr.offset_ms or expr.at is not None):
        yield replace(expr, offset_ms=0, at=None)
    if isinstance(expr, ast.VectorSelector) and len(expr.matchers) > 1 and expr.name is not None:
        yield replace(expr, matchers=tuple(one for one in expr.matchers if one.name == "__name__"))
    for name, child in children(expr):
        # A range's selector in place of the range would only be of the wrong type.
        within = [] if isinstance(child, ast.MatrixSelector) else [part for _, part in children(child)]
        for candidate in (*within, *_shortened(child)):
            yield with_child(expr, name, child, candidate)
