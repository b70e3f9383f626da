"""Whether a text is one SELECT that only reads.

The parser is DuckDB's own: what is judged is the tree that it would run. DuckDB says SELECT of more than reads: a
common table expression may hold an INSERT or a COPY to a file, and a table function may run a text of its own, change
the database, or show what others have done with it. So the forms of a query are listed here, and the table functions
that compute from their arguments alone; whatever is not on the lists is refused.

What a SELECT may read is not decided here but in `duckdb_sandbox`.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, cast

import duckdb

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_QUERY_FORMS: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS: Final = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)


def one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The parsed statement. Raises `QuarterdeckError` for a text that is something else, `duckdb.Error` for one that is
    no SQL."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise _refused(f"it holds {len(statements)} statements")
    (statement,) = statements
    if statement.type is not duckdb.StatementType.SELECT:
        raise _refused(f"it is a statement of the kind {statement.type.name}")
    if statement.named_parameters:
        raise _refused(f"it has parameters ({', '.join(sorted(statement.named_parameters))}), and no values for them")
    for node in _dicts_in(_tree_of(connection, sql)):
        kind = node.get("type")
        if "cte_map" in node and kind not in _QUERY_FORMS:  # whatever can stand where a query stands has this
            raise _refused(f"it has a part of the kind {kind}, which does more than read")
        if kind == "TABLE_FUNCTION":
            name = str(node["function"]["function_name"])
            if name not in _TABLE_FUNCTIONS:
                raise _refused(f"the table function {name} cannot be used here")
    return statement


def _tree_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    try:
        tree = json.loads(text)
    except RecursionError:
        raise _refused("its expressions are nested too deep") from None
    if tree["error"]:
        raise _refused(str(tree["error_message"]))
    return tree


def _dicts_in(tree: Any) -> Iterator[dict[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield cast("dict[str, Any]", node)
            left.extend(cast("dict[str, Any]", node).values())
        elif isinstance(node, list):
            left.extend(cast("list[Any]", node))


def _refused(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the SQL was not run",
        why,
        "write one SELECT that reads from `files` and nothing else",
    )
