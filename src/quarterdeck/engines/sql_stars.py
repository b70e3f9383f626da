"""What a * stands for, if `files` has a column that only a query that names it may see."""

from collections.abc import Iterator
from typing import cast

from quarterdeck.engines.sql_relations import FILES, expressions_in, own_expressions
from quarterdeck.engines.sql_tree import Node, folded


def hide_column(query: Node, column: str) -> bool:
    """Changes the tree so that no * over `files` has the column; whether there was any."""
    found = False
    for select in _selects_of_files(query):
        tables = list(_tables(select["from_table"]))
        names = {folded(table["alias"] or table["table_name"]) for table in tables if _is_files(table)}
        if not names:
            continue
        orders = [order for modifier in select["modifiers"] for order in modifier.get("orders", ())]
        sorted_by = [id(order["expression"]) for order in orders]
        for star in expressions_in(own_expressions(select)):
            if star.get("class") != "STAR" or star["expr"] is not None:
                continue
            if id(star) in sorted_by:  # ORDER BY ALL: the columns of the result, and not those of `files`
                continue
            if star["relation_name"] and folded(star["relation_name"]) not in names:
                continue
            if column not in (folded(name) for name in star["exclude_list"]):
                star["exclude_list"] = [*star["exclude_list"], column]
                found = True
    return found


def _selects_of_files(query: Node) -> Iterator[Node]:
    """Those in which `files` has no other meaning, given by a WITH."""
    left: list[tuple[object, bool]] = [(query, False)]
    while left:
        tree, is_other = left.pop()
        if isinstance(tree, list):
            left.extend((each, is_other) for each in cast("list[object]", tree))
        elif isinstance(tree, dict):
            node = cast("Node", tree)
            for entry in node["cte_map"]["map"] if "cte_map" in node else ():
                left.append((entry["value"], is_other))
                is_other = is_other or folded(entry["key"]) == FILES
            if node.get("type") == "SELECT_NODE" and not is_other:
                yield node
            left.extend((value, is_other) for part, value in node.items() if part != "cte_map")


def _tables(relation: Node) -> Iterator[Node]:
    left = [relation]
    while left:
        node = left.pop()
        if node["type"] == "BASE_TABLE":
            yield node
        elif node["type"] == "JOIN":
            left += (node["left"], node["right"])


def _is_files(table: Node) -> bool:
    return folded(table["table_name"]) == FILES
