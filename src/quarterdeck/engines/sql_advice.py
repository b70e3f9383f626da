"""What to write instead of SQL that cannot be divided: a SELECT of the rows that it needs, and the SQL over these
rows."""

import copy

from quarterdeck.engines.sql_calls import with_plain_calls
from quarterdeck.engines.sql_looks import (
    FILENAME,
    is_plain_table,
    names_files,
    names_in,
    names_mentioned,
    only_name,
    only_table,
)
from quarterdeck.engines.sql_made import column_of, select_of, star_of, table_of
from quarterdeck.engines.sql_relations import FILES, is_of_the_run, is_volatile
from quarterdeck.engines.sql_tree import Node, folded, nodes_in


def has_own_files(query: Node) -> bool:
    """Whether it calls something else `files` in places: then that name does not always stand for the files."""
    return any(folded(entry["key"]) == FILES for node in nodes_in(query) for entry in _ctes(node))


def rows_needed(query: Node) -> Node:
    """Rather too many columns and rows than too few."""
    query = with_plain_calls(query)
    columns = [column_of(name) for name in _columns(query)]
    if not columns:
        columns = [star_of(()), *([column_of(FILENAME)] if FILENAME in names_in(query) else [])]
    return select_of(columns, table_of(FILES), _condition(query), [])


def renamed_files(query: Node, name: str) -> Node:
    """The query over another table."""
    made = copy.deepcopy(query)
    for node in nodes_in(made):
        if names_files(node):
            node |= {
                "schema_name": "",
                "catalog_name": "",
                "table_name": name,
                "qualified_name": {"path": [name]},
                "alias": node["alias"] or node["table_name"],
            }
    return made


def _ctes(node: Node) -> list[Node]:
    return node["cte_map"]["map"] if "cte_map" in node else []


def _columns(query: Node) -> list[str]:
    """The columns of the files that it names; none where a name may be something else."""
    if query["type"] != "SELECT_NODE" or not is_plain_table(query) or names_mentioned(query) is None:
        return []
    nodes = list(nodes_in(query))
    if any(node.get("class") in ("SUBQUERY", "LAMBDA") or is_of_the_run(node) for node in nodes):
        return []
    aliases = {folded(node["alias"]) for node in nodes if node.get("alias")}
    orders = [order["expression"] for each in query["modifiers"] for order in each.get("orders", ())]
    results = {id(order) for order in orders if only_name(order) in aliases}
    found: set[str] = set()
    for node in nodes:
        if node.get("class") == "COLUMN_REF" and id(node) not in results:
            *owner, name = (folded(name) for name in node["column_names"])
            if name in aliases or owner not in ([], [only_table(query)]):
                return []
            found.add(name)
    return sorted(found)


def _condition(query: Node) -> Node | None:
    """What rows must fulfil, if that can be asked of them before as well as after."""
    if query["type"] != "SELECT_NODE" or not is_plain_table(query) or query["where_clause"] is None:
        return None
    where = query["where_clause"]
    aliases = {folded(item["alias"]) for item in query["select_list"]}
    owner = only_table(query)
    if owner != FILES or names_in(where) & aliases or is_volatile(where):
        return None
    if any(node.get("class") in ("SUBQUERY", "STAR", "POSITIONAL_REFERENCE") for node in nodes_in(where)):
        return None
    return copy.deepcopy(where)
