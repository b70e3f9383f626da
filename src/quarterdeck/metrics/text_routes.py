"""What can be said about a query without running it: whether it is one, of which leaves, how it is written, and the
tree that it is."""

from typing import Final

from fastapi import APIRouter, Request, Response

from quarterdeck.core.carets import line_and_column
from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.api.errors import BadRequest, error_answer
from quarterdeck.metrics.api.form import first
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.tree import tree_document
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.plan.explain import explain_leaf
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.syntax.ast import Expr
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.pretty import pretty
from quarterdeck.metrics.promql.syntax.printer import show
from quarterdeck.metrics.routes import PREFIX, in_prometheus_form, read_form, success, told
from quarterdeck.metrics.service import MetricsService
from quarterdeck.metrics.tag_routes import read_members

_METHODS: Final = ("GET", "POST")
_NAMES: Final = ("q", "query", "exp")
"""What clients call the query."""


def text_router(queries: MetricsService) -> APIRouter:
    """All three paths."""
    router = APIRouter(prefix=PREFIX, tags=["metrics"], default_response_class=Response)
    subquery_step_ms = queries.options.default_subquery_step_ms

    async def validate(request: Request) -> Response:
        """Whether a text is a query: if so its leaves, if not where it is wrong."""
        members = await read_members(request)
        text = next((members[name] for name in _NAMES if name in members), None)
        if not isinstance(text, str):
            raise BadRequest("no query provided", 'send {"q": "up"}')
        return success(await queries.in_thread(lambda: validated(text, subquery_step_ms)))

    async def format_query(request: Request) -> Response:
        """The query, formatted; a long one on several lines."""
        text = first(await read_form(request), "query")
        return success(await queries.in_thread(lambda: pretty(checked(text))))

    async def parse_query(request: Request) -> Response:
        """The tree of a query, in Prometheus' form."""
        text = first(await read_form(request), "query")
        return told(await queries.in_thread(lambda: json_bytes(tree_document(checked(text)))))

    handlers = {"/promql/validate": validate, "/format_query": format_query, "/parse_query": parse_query}
    for path, handler in handlers.items():
        for method in _METHODS:
            extra = described(router.prefix + path, method)
            router.add_api_route(path, in_prometheus_form(handler), methods=[method], **extra)
    return router


def checked(text: str) -> Expr:
    """The tree of a query that makes sense: whatever Prometheus calls an error of parsing is raised.

    >>> checked("rate(up)")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    quarterdeck.metrics.promql.errors.ParseError: the query was not understood: ...
    """
    tree = parse(text)
    check_types(tree, text)
    return tree


def validated(text: str, subquery_step_ms: int) -> dict[str, object]:
    """What is known about a text. It is planned as a query at one time, that of 1970: the ids of leaves depend on the
    times that are asked for.

    >>> validated("sum(up", 60_000)["column"], validated("sum(up)", 60_000)["leaves"][0]["text"]
    (7, 'sum of up')
    """
    try:
        plan = plan_query(text, 0, 0, 0, subquery_step_ms)
    except ParseError as error:
        line, column = line_and_column(text, error.span.start)
        return {"valid": False, "error": error.reason, "line": line, "column": column}
    except QuarterdeckError as error:
        return {"valid": False, "error": error_answer(error).text}
    return {
        "valid": True,
        "type": plan.kind.value,
        "query": show(parse(text)),
        "leaves": [{"id": leaf.id, "text": explain_leaf(leaf), "merge": leaf.merge.value} for leaf in plan.leaves],
    }
