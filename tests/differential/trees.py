"""What is within the tree of a query."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, Final, cast, get_args

from quarterdeck.metrics.promql.syntax import ast

_KINDS: Final[tuple[type[Any], ...]] = get_args(ast.Expr)


def children(expr: ast.Expr) -> Iterator[tuple[str, ast.Expr]]:
    """The expressions directly within one, with the name of the field that holds each."""
    for field in fields(expr):
        held: object = getattr(expr, field.name)
        for one in cast("tuple[object, ...]", held) if isinstance(held, tuple) else (held,):
            if isinstance(one, _KINDS):
                yield field.name, cast("ast.Expr", one)


def parts(expr: ast.Expr) -> Iterator[ast.Expr]:
    """All expressions within one."""
    for _, child in children(expr):
        yield child
        yield from parts(child)


def with_child(expr: ast.Expr, name: str, old: ast.Expr, new: ast.Expr) -> ast.Expr:
    """The expression with another in place of one that its field `name` holds."""
    held: ast.Expr | tuple[ast.Expr, ...] = getattr(expr, name)
    changed = tuple(new if one is old else one for one in held) if isinstance(held, tuple) else new
    return replace(expr, **{name: changed})  # pyright: ignore[reportArgumentType] - the field is known by name only


def mapped(expr: ast.Expr, change: Callable[[ast.Expr], ast.Expr]) -> ast.Expr:
    """The expression with every part of it, and then itself, changed."""
    for name, child in children(expr):
        expr = with_child(expr, name, child, mapped(child, change))
    return change(expr)


def without_parens(expr: ast.Expr | None) -> ast.Expr | None:
    """What is inside any parentheses around the whole."""
    while isinstance(expr, ast.Paren):
        expr = expr.expr
    return expr
