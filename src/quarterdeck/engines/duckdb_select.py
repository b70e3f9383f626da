"""Whether a text is one SELECT that only reads.

The parser is DuckDB's own, so the tree that is judged is the one that would run. DuckDB calls more things SELECT than
reads: a common table expression may hold an INSERT or a COPY to a file, and a table function may run a text of its own,
change the database, or show what others have done with it. So the allowed forms of a query are listed here, and the
table functions that compute from their arguments alone. Anything else is refused.

What a SELECT may read is not decided here but in `duckdb_sandbox`.
"""

from dataclasses import dataclass
from typing import Final

import duckdb

from quarterdeck.engines.duckdb_tree import query_of, read_tree, refused
from quarterdeck.engines.sql_tree import Node, nodes_in

_QUERY_FORMS: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS: Final = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT that only reads."""

    statement: duckdb.Statement
    query: Node
    """Its tree."""


def one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> Select:
    """The parsed statement. Raises `QuarterdeckError` for a text that is something else, `duckdb.Error` for one that is
    no SQL."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise refused(f"it holds {len(statements)} statements")
    (statement,) = statements
    if statement.type is not duckdb.StatementType.SELECT:
        raise refused(f"it is a statement of the kind {statement.type.name}")
    if statement.named_parameters:
        raise refused(f"it has parameters ({', '.join(sorted(statement.named_parameters))}), and no values for them")
    document = read_tree(connection, sql)
    for node in nodes_in(document):
        kind = node.get("type")
        if "cte_map" in node and kind not in _QUERY_FORMS:  # whatever can stand where a query stands has this
            raise refused(f"it has a part of the kind {kind}, which does more than read")
        if kind == "TABLE_FUNCTION":
            name = str(node["function"]["function_name"])
            if name not in _TABLE_FUNCTIONS:
                raise refused(f"the table function {name} cannot be used here")
    return Select(statement, query_of(document))
