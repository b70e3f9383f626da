"""Which files a SELECT can have no row of, judged by the values that their paths give to all their rows.

It looks only at conditions that must hold for every row, that name such columns and nothing else, and that always give
the same result. If that cannot be known, or DuckDB cannot evaluate them, all files are kept.
"""

from typing import Final

import duckdb

from quarterdeck.engines.duckdb_select import one_select
from quarterdeck.engines.duckdb_tree import UnwritableError, text_of
from quarterdeck.engines.merge_question import PruneQuestion
from quarterdeck.engines.sql_looks import is_plain_table
from quarterdeck.engines.sql_made import single_select
from quarterdeck.engines.sql_tree import Node, folded, nodes_in

_CLASSES: Final = frozenset(
    {"COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CAST", "TYPE"}
)
_FUNCTIONS: Final = frozenset(
    {
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "+",
        "-",
        "year",
        "month",
        "day",
        "date_trunc",
        "lower",
        "upper",
        "starts_with",
        "contains",
    }
)


def kept_files(connection: duckdb.DuckDBPyConnection, asked: PruneQuestion) -> list[int] | None:
    """The places of the files that may have rows; None is all of them."""
    query = one_select(connection, asked.sql).query
    where = query.get("where_clause")
    if query["type"] != "SELECT_NODE" or where is None or not is_plain_table(query):
        return None
    table = query["from_table"]
    names = {folded(name) for name, _ in asked.columns}
    owner = folded(table["alias"] or table["table_name"])
    aliases = {folded(item["alias"]) for item in query["select_list"]}
    conditions = [each for each in _conditions(where) if _is_told(each, names - aliases, owner)]
    if not conditions:
        return None
    try:
        texts = [text_of(connection, single_select(each)) for each in conditions]
        return _holding(connection, asked, owner, [text.removeprefix("SELECT ") for text in texts])
    except (duckdb.Error, UnwritableError, RecursionError):
        return None


def _conditions(where: Node) -> list[Node]:
    """That all must hold."""
    if where["class"] == "CONJUNCTION" and where["type"] == "CONJUNCTION_AND":
        return [each for child in where["children"] for each in _conditions(child)]
    return [where]


def _is_told(condition: Node, names: set[str], owner: str) -> bool:
    found = False
    for node in nodes_in(condition):
        kind = node.get("class")
        if kind == "COLUMN_REF":
            path = [folded(name) for name in node["column_names"]]
            if path[-1] not in names or path[:-1] not in ([], [owner]):
                return False
            found = True
        elif kind == "FUNCTION":
            if folded(node["function_name"]) not in _FUNCTIONS:
                return False
        elif kind is not None and kind not in _CLASSES:
            return False
    return found


def _holding(
    connection: duckdb.DuckDBPyConnection, asked: PruneQuestion, owner: str, conditions: list[str]
) -> list[int]:
    """The files of which all conditions hold."""
    if any(folded(name) == "place" for name, _ in asked.columns):
        raise UnwritableError("a column is called as the number of a file is here")
    columns = [f"list_extract(?::{kind}[], place + 1) AS {_quoted(name)}" for name, kind in asked.columns]
    values = [[row[place] for row in asked.values] for place in range(len(asked.columns))]
    files = f"SELECT place, {', '.join(columns)} FROM range(?::BIGINT) numbers(place)"
    where = " AND ".join(f"({each})" for each in conditions)
    sql = f"SELECT place FROM ({files}) {_quoted(owner)} WHERE {where} ORDER BY place"
    rows = connection.execute(sql, [*values, len(asked.values)]).fetchall()
    return [place for (place,) in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
