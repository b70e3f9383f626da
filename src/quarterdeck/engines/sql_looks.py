"""Reads the tree of a SELECT: names, ordinals, and whether two expressions mean the same."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from quarterdeck.engines.sql_relations import FILES, TABLES, TogetherError, expressions_in
from quarterdeck.engines.sql_tree import Node, folded, nodes_in

FILENAME: Final = "filename"
"""A column that `files` has for SQL that names it."""


def insist_liftable(tree: object, classes: Sequence[str]) -> None:
    for node in expressions_in(tree):
        if node.get("class") in classes:
            raise TogetherError(f"it has a {node['class'].replace('_', ' ')} among what parts are told apart by")


def formal(tree: Any, table: str | None) -> Any:
    if isinstance(tree, list):
        return [formal(each, table) for each in cast("list[Any]", tree)]
    if not isinstance(tree, dict):
        return tree
    node = cast("Node", tree)
    if node.get("class") == "COLUMN_REF":
        names = [folded(name) for name in node["column_names"]]
        return names[1:] if len(names) > 1 and names[0] == table else names
    skipped = ("query_location", "query_location_length", "alias")
    return {part: formal(value, table) for part, value in node.items() if part not in skipped}


def only_table(query: Node) -> str | None:
    """What the columns of the only table may be called by, in lower case."""
    table = query["from_table"]
    if table["type"] == "BASE_TABLE":
        return folded(table["alias"] or table["table_name"])
    return folded(table["alias"]) if table["type"] == "SUBQUERY" and table["alias"] else None


def is_plain_table(query: Node) -> bool:
    table = query["from_table"]
    return table["type"] == "BASE_TABLE" and folded(table["table_name"]) == FILES and not query["cte_map"]["map"]


def names_files(node: Node) -> bool:
    return node.get("type") == "BASE_TABLE" and folded(node["table_name"]) == FILES


def only_name(node: object) -> str | None:
    if not isinstance(node, dict):
        return None
    known = cast("Node", node)
    if known.get("class") != "COLUMN_REF" or len(known["column_names"]) != 1:
        return None
    return folded(known["column_names"][0])


def names_in(tree: object) -> frozenset[str]:
    references = (node for node in nodes_in(tree) if node.get("class") == "COLUMN_REF")
    return frozenset(folded(name) for node in references for name in node["column_names"])


def names_mentioned(query: Node) -> frozenset[str] | None:
    """Of the columns of `files` that a query may read, with those within it; None is all of them."""
    nodes = list(nodes_in(query))
    tables = {folded(node["alias"] or node.get("table_name") or "") for node in nodes if _is_table(node)}
    values = [node for node in nodes if _is_table(node.get("from_table")) and not _has_columns(node["from_table"])]
    of_values = {id(star) for each in values for star in nodes_in(each["select_list"])}
    modifiers = [each for node in nodes for each in node.get("modifiers", ())]
    orders = [order["expression"] for each in modifiers for order in each.get("orders", ())]
    of_results = {id(order) for order in orders if is_all(order)}
    names = set(names_in(query))
    for node in nodes:
        kind = node.get("class")
        if kind == "POSITIONAL_REFERENCE" or (kind == "STAR" and id(node) not in of_values | of_results):
            return None
        if only_name(node) in tables or (names_files(node) and node["column_name_alias"]):
            return None
        if node.get("type") == "JOIN":
            if node["ref_type"] == "NATURAL":
                return None
            names |= {folded(name) for name in node["using_columns"]}
    return frozenset(names)


def _is_table(node: object) -> bool:
    return isinstance(node, dict) and str(cast("Node", node).get("type")) in TABLES and "class" not in node


def _has_columns(table: Node) -> bool:
    return table["type"] != "EXPRESSION_LIST"


def ordinal(node: Node) -> int | None:
    if node["class"] != "CONSTANT" or node["literal"]["kind"] != "INTEGER":
        return None
    return int(node["literal"]["text"])


def is_all(expression: Node) -> bool:
    """Whether it is the ALL of ORDER BY ALL. A * there means the columns of the files."""
    if expression["class"] != "STAR" or not expression["columns"] or expression["relation_name"] or expression["expr"]:
        return False
    return not any(value for name, value in expression.items() if name.endswith("_list"))


def form_of(expression: Node, table: str | None) -> str:
    """The same for expressions that mean the same column or value, however they are written."""
    return json.dumps(formal(expression, table), sort_keys=True)
