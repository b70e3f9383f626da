"""SQL as the tree that DuckDB's own parser makes of it, and back.

Code that changes a tree gets its text from `text_of`, which checks that the text means the same tree. If DuckDB cannot
write a tree as it was read, that is an error, never another query.
"""

import json
from typing import Any, Final, cast

import duckdb

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.sql_tree import Node

_PLACES: Final = frozenset({"query_location", "query_location_length"})


class UnwritableError(Exception):
    """DuckDB writes a tree in words that mean another one."""


def read_tree(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """The statement. Raises `QuarterdeckError` for what has no such tree, `duckdb.Error` for what is no SQL."""
    document = _serialized(connection, sql)
    if document["error"]:
        raise refused(str(document["error_message"]))
    return document


def query_of(document: Node) -> Node:
    """The query of a document with one statement."""
    return cast("Node", document["statements"][0]["node"])


def text_of(connection: duckdb.DuckDBPyConnection, query: Node) -> str:
    """Raises `UnwritableError`."""
    document: dict[str, Any] = {"error": False, "statements": [{"node": query, "named_param_map": []}]}
    try:
        ((text,),) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(document)]).fetchall()
        read = _serialized(connection, text)
    except duckdb.Error as error:
        raise UnwritableError(str(error)) from error
    if read["error"] or _plain(query_of(read)) != _plain(query):
        raise UnwritableError(text)
    return str(text)


def refused(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the SQL was not run",
        why,
        "write one SELECT that reads from `files` and nothing else",
    )


def _serialized(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    try:
        return cast("Node", json.loads(text))
    except RecursionError:
        raise refused("its expressions are nested too deep") from None


def _plain(tree: Any) -> Any:
    """The tree without the places in a text, to be compared."""
    if isinstance(tree, dict):
        node = cast("Node", tree)
        return {name: _plain(value) for name, value in node.items() if name not in _PLACES}
    if isinstance(tree, list):
        return [_plain(each) for each in cast("list[Any]", tree)]
    return tree
