"""Trees that we make ourselves: columns, tables, and a SELECT of them."""

import copy
from collections.abc import Sequence
from typing import Final

from quarterdeck.engines.sql_tree import Node


def _node(kind: str, **parts: object) -> Node:
    return {"class": kind, "type": kind, "alias": "", "query_location": 0, "query_location_length": 0, **parts}


_EMPTY: Final = {"type": "EMPTY", "alias": "", "sample": None, "query_location": 0, "query_location_length": 0}


def constant_of(number: int) -> Node:
    return _node("CONSTANT", type="VALUE_CONSTANT", literal={"kind": "INTEGER", "text": str(number)})


def column_of(name: str) -> Node:
    return _node("COLUMN_REF", column_names=[name])


def star_of(without: Sequence[str]) -> Node:
    lists: dict[str, object] = {name: [] for name in ("replace_list", "qualified_exclude_list", "rename_list")}
    return _node("STAR", relation_name="", exclude_list=list(without), columns=False, expr=None, **lists)


def named(expression: Node, name: str) -> Node:
    return {**copy.deepcopy(expression), "alias": name}


def table_of(name: str) -> Node:
    return {
        "type": "BASE_TABLE",
        "alias": "",
        "sample": None,
        "query_location": 0,
        "query_location_length": 0,
        "schema_name": "",
        "table_name": name,
        "column_name_alias": [],
        "catalog_name": "",
        "at_clause": None,
        "qualified_name": {"path": [name]},
    }


def select_of(select_list: list[Node], table: Node, where: Node | None, modifiers: list[Node]) -> Node:
    return {
        "type": "SELECT_NODE",
        "modifiers": modifiers,
        "cte_map": {"map": []},
        "select_list": select_list,
        "from_table": table,
        "where_clause": where,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }


def bare(query: Node, select_list: list[Node]) -> Node:
    """Something else of the same relation."""
    made = select_of(copy.deepcopy(select_list), copy.deepcopy(query["from_table"]), None, [])
    return {**made, "cte_map": copy.deepcopy(query["cte_map"])}


def scope_of(query: Node) -> Node:
    return bare(query, [star_of(())])


def single_select(expression: Node) -> Node:
    """A query that gives one value."""
    return select_of([expression], _EMPTY, None, [])
