"""A tree as text over several lines, as Prometheus writes it (`format_query`): what is longer than a line is cut at
operators, parentheses and arguments, and what is below is moved to the right.

What the printer writes otherwise beside an operator than by itself stays on its line, so that it reads the same again.
"""

from typing import Final

from quarterdeck.metrics.promql.syntax.ast import Aggregation, Binary, Call, Expr, NumberLiteral, Paren, Subquery, Unary
from quarterdeck.metrics.promql.syntax.printer import (
    is_changed_beside_operator,
    show,
    show_head,
    show_operator,
    show_window,
)

LINE_BYTES: Final = 100
_INDENT: Final = "  "


def pretty(expr: Expr, line_bytes: int = LINE_BYTES) -> str:
    """The query that a tree stands for.

    >>> from quarterdeck.metrics.promql.syntax.parser import parse
    >>> print(pretty(parse("sum by (job) (rate(http_total[5m]))"), 30))
    sum by (job) (
      rate(http_total[5m])
    )
    """
    too_long: set[int] = set()
    _find(expr, line_bytes, too_long)
    return _Pretty(too_long).text(expr, 0)


def _find(expr: Expr, line_bytes: int, too_long: set[int]) -> bool:
    """Whether it does not fit into a line. What has a part that does not fit does not fit either, so that only short
    texts are written to be measured."""
    found = [_find(part, line_bytes, too_long) for part in _parts(expr)]
    if any(found) or len(show(expr).encode(errors="surrogatepass")) > line_bytes:
        too_long.add(id(expr))
    return id(expr) in too_long


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Paren(expr=inner) | Unary(expr=inner) | Subquery(expr=inner):
            return (inner,)
        case Binary():
            return expr.lhs, expr.rhs
        case Aggregation():
            return (expr.expr,) if expr.parameter is None else (expr.parameter, expr.expr)
        case Call():
            return expr.args
        case _:
            return ()


class _Pretty:
    def __init__(self, too_long: set[int]) -> None:
        self._too_long = too_long

    def text(self, expr: Expr, level: int) -> str:
        """Moved to the right by its level."""
        indent = _INDENT * level
        if id(expr) not in self._too_long:
            return indent + show(expr)
        match expr:
            case Paren():
                return f"{indent}(\n{self.text(expr.expr, level + 1)}\n{indent})"
            case Unary():
                return f"{indent}{'-' if expr.negative else '+'}{self.text(expr.expr, level).strip(' ')}"
            case Subquery() if not isinstance(expr.expr, NumberLiteral):  # an infinity loses its sign
                return self.text(expr.expr, level) + show_window(expr)
            case Binary() if not is_changed_beside_operator(expr):
                lhs, rhs = self.text(expr.lhs, level + 1), self.text(expr.rhs, level + 1)
                return f"{lhs}\n{indent}{show_operator(expr)}\n{rhs}"
            case Aggregation():
                return f"{indent}{show_head(expr)}(\n{self._list(_parts(expr), level)}\n{indent})"
            case Call() if expr.args:
                return f"{indent}{expr.function}(\n{self._list(expr.args, level)}\n{indent})"
            case _:
                return indent + show(expr)

    def _list(self, parts: tuple[Expr, ...], level: int) -> str:
        return ",\n".join(self.text(part, level + 1) for part in parts)
