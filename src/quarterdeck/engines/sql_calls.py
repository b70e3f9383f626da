"""Calls that are written as methods of a column: `s.upper()` is `upper(s)`.

DuckDB's parser takes the column for the schema of the function, and only its binder sees that there is no such schema.
So code that looks for columns would not find such a column.
"""

import copy
from typing import Final

from quarterdeck.engines.sql_made import column_of
from quarterdeck.engines.sql_tree import Node, folded, nodes_in

_SCHEMAS: Final = frozenset({"", "main", "pg_catalog", "information_schema"})
_TABLE_COLUMN_FUNCTION: Final = 3


def with_plain_calls(query: Node) -> Node:
    """The same query. DuckDB calls columns by how they are written: what has to keep these names, keeps its calls."""
    made = copy.deepcopy(query)
    for node in nodes_in(made):
        if node.get("class") == "FUNCTION" and folded(node["schema"]) not in _SCHEMAS:
            path = [str(name) for name in node["qualified_name"]["path"]]
            if len(path) > _TABLE_COLUMN_FUNCTION:
                continue  # DuckDB knows no such call
            column = {**column_of(path[0]), "column_names": path[:-1]}
            node["arguments"] = [{"name": "", "expression": column}, *node["arguments"]]
            node |= {"schema": "", "catalog": "", "qualified_name": {"path": path[-1:]}}
    return made
