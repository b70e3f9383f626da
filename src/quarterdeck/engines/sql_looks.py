"""What stands in the tree of a SELECT: names, ordinals, and whether two expressions mean the same."""

import copy
import json
from collections.abc import Sequence
from typing import Any, cast

from quarterdeck.engines.sql_relations import FILES, TogetherError, expressions_in
from quarterdeck.engines.sql_tree import Node, nodes_in


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
        names = [str(name).lower() for name in node["column_names"]]
        return names[1:] if len(names) > 1 and names[0] == table else names
    skipped = ("query_location", "query_location_length", "alias")
    return {part: formal(value, table) for part, value in node.items() if part not in skipped}


def only_table(query: Node) -> str | None:
    """What the columns of the only table may be called by, in lower case."""
    table = query["from_table"]
    if table["type"] == "BASE_TABLE":
        return str(table["alias"] or table["table_name"]).lower()
    return str(table["alias"]).lower() if table["type"] == "SUBQUERY" and table["alias"] else None


def is_plain_table(query: Node) -> bool:
    table = query["from_table"]
    return table["type"] == "BASE_TABLE" and str(table["table_name"]).lower() == FILES and not query["cte_map"]["map"]


def names_files(node: Node) -> bool:
    return node.get("type") == "BASE_TABLE" and str(node["table_name"]).lower() == FILES


def only_name(node: object) -> str | None:
    if not isinstance(node, dict):
        return None
    known = cast("Node", node)
    if known.get("class") != "COLUMN_REF" or len(known["column_names"]) != 1:
        return None
    return str(known["column_names"][0]).lower()


def names_in(tree: object) -> frozenset[str]:
    references = (node for node in nodes_in(tree) if node.get("class") == "COLUMN_REF")
    return frozenset(str(name).lower() for node in references for name in node["column_names"])


def ordinal(node: Node) -> int | None:
    if node["class"] != "CONSTANT" or node["literal"]["kind"] != "INTEGER":
        return None
    return int(node["literal"]["text"])


def form_of(expression: Node, table: str | None) -> str:
    """The same for expressions that mean the same column or value, however they are written."""
    return json.dumps(formal(expression, table), sort_keys=True)


def renamed_files(query: Node, name: str) -> Node:
    """The query over another table: what somebody could write to merge parts."""
    made = copy.deepcopy(query)
    for node in nodes_in(made):
        if names_files(node):
            node |= {
                "table_name": name,
                "qualified_name": {"path": [name]},
                "alias": node["alias"] or node["table_name"],
            }
    return made
