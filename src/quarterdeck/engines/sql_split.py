"""How one SELECT over `files` is divided: what each part is asked, and what makes one answer of what the parts say.

A part is asked for its groups with partial aggregates, its distinct rows or its first rows; its columns have names of
ours. What makes one answer of them is the outermost query again, over these columns. A name that could mean a column of
the files as well as a column of the result is taken for the latter here, and told (`Split.not_columns`): who knows the
files looks whether that is so. What cannot be divided so that the answer is certainly DuckDB's own needs all files
together.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

from quarterdeck.engines.sql_aggregates import Merge, is_aggregate, merge_of
from quarterdeck.engines.sql_relations import (
    FILES,
    Kind,
    TogetherError,
    expressions_in,
    gathering_expression,
    insist_no_files_below,
    is_volatile,
    kind_of_relation,
    own_expressions,
    with_ctes,
)
from quarterdeck.engines.sql_tree import Node, nodes_in

MERGED: Final = "__merged"
"""What the outermost query reads when groups are merged; else it reads `PARTS`."""
PARTS: Final = "parts"
_NODES_MAX: Final = 50_000
"""Of expressions in which names of others were replaced: each may double them."""
_UNDIVIDED: Final = frozenset({"SUBQUERY", "LAMBDA", "WINDOW", "STAR", "COLLATE", "POSITIONAL_REFERENCE", "DEFAULT"})
"""What stands above groups and cannot be moved to where only groups are."""


class Way(StrEnum):
    ROWS = "rows"
    """The rows of the parts, one part after the other, are the answer."""
    FIRST = "first"
    """So many of these rows, from so many on."""
    MERGED = "merged"
    """One more query makes the answer."""
    CONSTANT = "constant"
    """No file is read: it is asked once."""
    TOGETHER = "together"
    """It is exact only where all files are read together."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How a column of the parts is merged."""

    column: str
    """Of the parts."""
    result: str
    """Its name when it is merged."""
    function: str
    merge: Merge
    arguments: int = 1
    probe: int | None = None
    """The place among `Split.probes` of what its type depends on."""
    filter_column: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Trees; `Plan` has their texts."""

    way: Way
    why: str = ""
    """Why it needs all files together; follows `because`."""
    part: Node | None = None
    offset: int = 0
    limit: int | None = None
    keys: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    is_grouped: bool = False
    outer: Node | None = None
    scope: Node | None = None
    """Gives all columns that expressions may name."""
    probes: Node | None = None
    names: frozenset[str] | None = None
    """Of columns that it may read, in lower case; None is all of them."""
    not_columns: frozenset[str] = frozenset()
    """Names that must not be columns of the files, in lower case."""


def split(query: Node) -> Split:
    """Of the outermost query."""
    try:
        return _split(query)
    except TogetherError as error:
        return Split(Way.TOGETHER, str(error))
    except RecursionError:
        return Split(Way.TOGETHER, "its expressions are nested too deep to be divided")


def _split(query: Node) -> Split:
    if query["type"] != "SELECT_NODE":
        if any(_names_files(node) for node in nodes_in(query)):
            raise TogetherError("it has a UNION, EXCEPT, INTERSECT or RECURSIVE over files")
        return Split(Way.CONSTANT)
    scope = with_ctes(query, {})
    kind = kind_of_relation(query["from_table"], scope)
    insist_no_files_below(own_expressions(query), scope)
    if kind is Kind.CONSTANT:
        return Split(Way.CONSTANT)
    if query["qualify"] is not None or query["sample"] is not None:
        raise TogetherError("it has a QUALIFY or SAMPLE")
    modifiers = _Modifiers(query["modifiers"])
    gathers = [query["select_list"], query["having"], modifiers.orders]
    if any(node.get("class") == "WINDOW" for node in expressions_in(gathers)):
        raise TogetherError("it has a window function")
    is_grouped = (
        bool(query["group_expressions"] or query["group_sets"] or query["having"])
        or query["aggregate_handling"] != "STANDARD_HANDLING"
        or any(map(is_aggregate, expressions_in(gathers)))
    )
    if is_grouped:
        return _Groups(query, modifiers).split()
    if modifiers.is_distinct or modifiers.orders:
        return _Sorted(query, modifiers).split()
    if modifiers.limit is None and not modifiers.offset:
        return Split(Way.ROWS)
    part = modifiers.pushed_to(query)
    return Split(Way.FIRST, part=part, offset=modifiers.offset, limit=modifiers.limit)


class _Modifiers:
    """What stands behind a query: DISTINCT, ORDER BY, LIMIT."""

    def __init__(self, modifiers: Sequence[Node]) -> None:
        self.orders: list[Node] = []
        self.is_distinct = False
        self.limit: int | None = None
        self.offset = 0
        for each in modifiers:
            match each["type"]:
                case "ORDER_MODIFIER":
                    self.orders += each["orders"]
                case "DISTINCT_MODIFIER" if not each["distinct_on_targets"]:
                    self.is_distinct = True
                case "LIMIT_MODIFIER" if each["limit_type"] == "ROW_COUNT":
                    self.limit = _count(each["limit"])
                    self.offset = _count(each["offset"]) or 0
                case "DISTINCT_MODIFIER":
                    raise TogetherError("it has a DISTINCT ON")
                case _:
                    raise TogetherError("it has a LIMIT in percent")

    def pushed_to(self, query: Node) -> Node:
        """The query with the LIMIT that no part needs to go beyond."""
        part = copy.deepcopy(query)
        part["modifiers"] = [each for each in part["modifiers"] if each["type"] != "LIMIT_MODIFIER"]
        if self.limit is not None:
            count = _constant(self.limit + self.offset)
            limit = {"type": "LIMIT_MODIFIER", "limit": count, "offset": None, "limit_type": "ROW_COUNT"}
            part["modifiers"].append(limit)
        return part


@dataclass
class _Names:
    """The names of the columns of the result, and what they stand for."""

    items: list[Node] = field(default_factory=list[Node])
    """Of the select list, without names of each other."""
    by_name: dict[str, int] = field(default_factory=dict[str, int])
    used: set[str] = field(default_factory=set[str])
    """That were taken for columns of the result."""

    @classmethod
    def of(cls, select_list: Sequence[Node]) -> "_Names":
        names = cls()
        for place, item in enumerate(select_list):
            names.items.append(names.resolved(item))
            if item["alias"]:
                names.by_name.setdefault(str(item["alias"]).lower(), place)
        return names

    def resolved(self, expression: Node) -> Node:
        """With what names of results stand for in place of them."""
        found = cast("Node", self._resolved(expression, is_having=False))
        if sum(1 for _ in nodes_in(found)) > _NODES_MAX:
            raise TogetherError("its columns name each other too often to be divided")
        return found

    def resolved_having(self, expression: Node) -> Node:
        """As above. In a HAVING, and only there, the name of a result comes before that of a column."""
        return cast("Node", self._resolved(expression, is_having=True))

    def place_of(self, expression: Node) -> int | None:
        """The column of the result that is named, if nothing else stands there."""
        name = _only_name(expression)
        return None if name is None else self.by_name.get(name)

    def _resolved(self, tree: Any, *, is_having: bool) -> Any:
        if isinstance(tree, list):
            return [self._resolved(each, is_having=is_having) for each in cast("list[Any]", tree)]
        if not isinstance(tree, dict):
            return tree
        node = cast("Node", tree)
        if node.get("class") in ("SUBQUERY", "LAMBDA"):
            names = {_only_name(each) for each in nodes_in(node)}
            if names & self.by_name.keys():
                raise TogetherError("a query or lambda within an expression uses a name of the result")
        place, name = self.place_of(node), _only_name(node)
        if place is not None and name is not None:
            item = self.items[place]
            is_column = name in names_in(item)  # what a result is made of is no name of a result
            if is_column and is_having and _only_name(item) != name:
                raise TogetherError(f"{name} in its HAVING may be a column or a result")
            if is_column:
                return node
            if not is_having:
                self.used.add(name)
            return {**copy.deepcopy(item), "alias": node["alias"]}
        return {part: self._resolved(value, is_having=is_having) for part, value in node.items()}


class _Groups:
    """A query with aggregates or GROUP BY."""

    def __init__(self, query: Node, modifiers: _Modifiers) -> None:
        self._query = query
        self._modifiers = modifiers
        self._table = _only_table(query)
        self._names = _Names.of(query["select_list"])
        self._keys: dict[str, int] = {}
        """By their form: see `_form`."""
        self._key_items: list[Node] = []
        self._aggregates: dict[str, Aggregate] = {}
        self._part_items: list[Node] = []
        """Of aggregates, as a part computes them."""
        self._values: list[Node] = []
        """That travel for DISTINCT, as further keys of the parts."""
        self._probes: list[Node] = []

    def split(self) -> Split:
        query = self._query
        if any(node.get("class") == "STAR" for node in expressions_in(query["select_list"])):
            raise TogetherError("it has a * or COLUMNS beside groups: name the columns")
        if len(query["group_sets"]) > 1:
            raise TogetherError("it has GROUPING SETS, ROLLUP or CUBE")
        for key in self._group_expressions():
            self._add_key(key)
        select_list = [
            {**self._lifted(resolved), "alias": item["alias"]}
            for item, resolved in zip(query["select_list"], self._names.items, strict=True)
        ]
        having = None if query["having"] is None else self._lifted(self._names.resolved_having(query["having"]))
        modifiers = copy.deepcopy(query["modifiers"])
        for order in (order for each in modifiers for order in each.get("orders", ())):
            order["expression"] = self._lifted_order(order["expression"])
        outer = _select(select_list, _table(MERGED), having, modifiers)
        columns = [*self._key_items, *self._values, *self._part_items]
        part = _bare(query, columns or [_named(_constant(1), "__n0")])
        keys = len(self._key_items) + len(self._values)
        part["group_expressions"] = [_constant(place + 1) for place in range(keys)]
        part["group_sets"] = [list(range(keys))] if keys else []
        if query["where_clause"] is not None:
            part["where_clause"] = self._names.resolved(query["where_clause"])
        if not keys and not self._part_items:
            raise TogetherError("it has groups without a column")
        return Split(
            Way.MERGED,
            part=part,
            keys=tuple(str(item["alias"]) for item in self._key_items),
            aggregates=tuple(self._aggregates.values()),
            is_grouped=True,
            outer=outer,
            scope=_scope(query),
            probes=_bare(query, self._probes) if self._probes else None,
            names=names_in(own_expressions(query)) if is_plain_table(query) else None,
            not_columns=frozenset(self._names.used),
        )

    def _group_expressions(self) -> list[Node]:
        query, names = self._query, self._names
        if query["aggregate_handling"] == "FORCE_AGGREGATES":  # GROUP BY ALL
            return [item for item in names.items if not any(map(is_aggregate, expressions_in(item)))]
        keys: list[Node] = []
        for expression in query["group_expressions"]:
            place = _ordinal(expression)
            if place is None:
                keys.append(names.resolved(expression))
            elif 1 <= place <= len(names.items):
                keys.append(names.items[place - 1])
            else:
                raise TogetherError(f"its GROUP BY names column {place}, which there is not")
        return keys

    def _add_key(self, expression: Node) -> None:
        why = gathering_expression(expression)
        if why is not None:
            raise TogetherError(f"a column that it groups by {why}")
        _insist_liftable(expression, ("COLLATE", "STAR", "POSITIONAL_REFERENCE"))
        if is_volatile(expression):
            raise TogetherError("it groups by a value by chance")
        form = self._form(expression)
        if form not in self._keys:
            self._keys[form] = len(self._key_items)
            self._key_items.append(_named(expression, f"__k{len(self._key_items)}"))

    def _lifted(self, expression: Node) -> Node:
        """The same above groups: keys and aggregates are columns there."""
        return cast("Node", self._lift(expression))

    def _lift(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._lift(each) for each in cast("list[Any]", tree)]
        if not isinstance(tree, dict):
            return tree
        node = cast("Node", tree)
        if "class" in node:
            key = self._keys.get(self._form(node))
            if key is not None:
                return _column(f"__k{key}")
            if is_aggregate(node):
                return _column(self._aggregate(node).result)
            if node["class"] in _UNDIVIDED or node["type"] == "GROUPING_FUNCTION":
                raise TogetherError(f"a {str(node['type']).replace('_', ' ')} stands above its groups")
            if node["class"] == "COLUMN_REF":
                raise TogetherError(f"{'.'.join(node['column_names'])} stands above its groups and is none of them")
        return {part: self._lift(value) for part, value in node.items()}

    def _lifted_order(self, expression: Node) -> Node:
        if _ordinal(expression) is not None or expression["class"] == "STAR":  # ORDER BY 2, ORDER BY ALL
            return expression
        place = self._names.place_of(expression)
        if place is not None:
            return _constant(place + 1)
        return self._lifted(self._names.resolved(expression))

    def _aggregate(self, call: Node) -> Aggregate:
        form = self._form(call)
        if form not in self._aggregates:
            self._aggregates[form] = self._new_aggregate(call)
        return self._aggregates[form]

    def _new_aggregate(self, call: Node) -> Aggregate:
        function = str(call["function_name"]).lower()
        merge = merge_of(call)
        if merge is None:
            raise TogetherError(f"{function} of parts does not make {function} of the whole")
        arguments = [each["expression"] for each in call["arguments"]]
        below = [*arguments, call["filter"]]
        why = gathering_expression(below)
        if why is not None:
            raise TogetherError(f"what stands in {function} {why}")
        _insist_liftable(below, ("COLLATE", "STAR", "POSITIONAL_REFERENCE"))
        result = f"__r{len(self._aggregates)}"
        if merge is Merge.DISTINCT:
            column = self._value(arguments[0])
            filtered = None if call["filter"] is None else self._value(call["filter"])
            return Aggregate(column, result, function, merge, filter_column=filtered)
        column = f"__a{len(self._part_items)}"
        state = merge in (Merge.STATE, Merge.AVERAGE)
        self._part_items.append(_named({**call, "export_state": state}, column))
        probe = None
        if merge is Merge.AVERAGE:
            probe = len(self._probes)
            self._probes.append(_named(arguments[0], f"__p{probe}"))
        return Aggregate(column, result, function, merge, len(arguments), probe)

    def _value(self, expression: Node) -> str:
        if is_volatile(expression):
            raise TogetherError("it has DISTINCT values by chance")
        for item in self._values:
            if self._form(item) == self._form(expression):
                return str(item["alias"])
        column = f"__d{len(self._values)}"
        self._values.append(_named(expression, column))
        return column

    def _form(self, expression: Node) -> str:
        """The same for expressions that mean the same column or value, however they are written."""
        return json.dumps(_formal(expression, self._table), sort_keys=True)


class _Sorted:
    """A query without groups, with DISTINCT or ORDER BY."""

    def __init__(self, query: Node, modifiers: _Modifiers) -> None:
        self._query = query
        self._modifiers = modifiers
        self._names = _Names.of(query["select_list"])
        self._table = _only_table(query)
        self._extra: list[Node] = []

    def split(self) -> Split:
        query, modifiers = self._query, self._modifiers
        _insist_liftable([query["select_list"], modifiers.orders], ("COLLATE", "POSITIONAL_REFERENCE"))
        merging = copy.deepcopy(query["modifiers"])
        for order in (order for each in merging for order in each.get("orders", ())):
            order["expression"] = self._order(order["expression"])
        part = modifiers.pushed_to(query)
        if modifiers.is_distinct and modifiers.orders:  # the first of a part need not be among the first of all
            part["modifiers"] = [each for each in part["modifiers"] if each["type"] == "DISTINCT_MODIFIER"]
        elif modifiers.limit is None:
            part["modifiers"] = [each for each in part["modifiers"] if each["type"] != "ORDER_MODIFIER"]
        part["select_list"] = [*part["select_list"], *self._extra]
        star = _star([str(item["alias"]) for item in self._extra])
        return Split(
            Way.MERGED,
            part=part,
            outer=_select([star], _table(PARTS), None, merging),
            scope=_scope(query),
            names=self._columns(),
            not_columns=frozenset(self._names.used),
        )

    def _columns(self) -> frozenset[str] | None:
        query = self._query
        if not is_plain_table(query) or any(node.get("class") == "STAR" for node in nodes_in(query["select_list"])):
            return None
        return names_in(own_expressions(query))

    def _order(self, expression: Node) -> Node:
        """What the rows of parts are sorted by."""
        if _ordinal(expression) is not None or expression["class"] == "STAR":
            return expression
        place = self._place(expression)
        if place is not None:
            return _constant(place + 1)
        if self._modifiers.is_distinct:
            name = _only_name(expression)
            if name is None or not self._has_star():
                raise TogetherError("it has DISTINCT and sorts by what is no column of its result")
            return _column(name)
        resolved = self._names.resolved(expression)
        if is_volatile(resolved):
            raise TogetherError("it sorts by a value by chance")
        column = f"__o{len(self._extra)}"
        self._extra.append(_named(resolved, column))
        return _column(column)

    def _place(self, expression: Node) -> int | None:
        """The column of the result that it is. Behind a * nobody knows which one that is."""
        items = self._query["select_list"]
        place = self._names.place_of(expression)
        if place is None:
            form = self._form(expression)
            place = next((at for at, item in enumerate(items) if self._form(item) == form), None)
        if place is None or any(node.get("class") == "STAR" for node in expressions_in(items[:place])):
            return None
        return None if any(str(node.get("function_name")) == "unnest" for node in expressions_in(items)) else place

    def _has_star(self) -> bool:
        return any(item["class"] == "STAR" for item in self._query["select_list"])

    def _form(self, expression: Node) -> str:
        return json.dumps(_formal(expression, self._table), sort_keys=True)


# Trees


def _insist_liftable(tree: object, classes: Sequence[str]) -> None:
    for node in expressions_in(tree):
        if node.get("class") in classes:
            raise TogetherError(f"it has a {node['class'].replace('_', ' ')} among what parts are told apart by")


def _formal(tree: Any, table: str | None) -> Any:
    if isinstance(tree, list):
        return [_formal(each, table) for each in cast("list[Any]", tree)]
    if not isinstance(tree, dict):
        return tree
    node = cast("Node", tree)
    if node.get("class") == "COLUMN_REF":
        names = [str(name).lower() for name in node["column_names"]]
        return names[1:] if len(names) > 1 and names[0] == table else names
    skipped = ("query_location", "query_location_length", "alias")
    return {part: _formal(value, table) for part, value in node.items() if part not in skipped}


def _only_table(query: Node) -> str | None:
    """What the columns of the only table may be called by, in lower case."""
    table = query["from_table"]
    if table["type"] == "BASE_TABLE":
        return str(table["alias"] or table["table_name"]).lower()
    return str(table["alias"]).lower() if table["type"] == "SUBQUERY" and table["alias"] else None


def is_plain_table(query: Node) -> bool:
    table = query["from_table"]
    return table["type"] == "BASE_TABLE" and str(table["table_name"]).lower() == FILES and not query["cte_map"]["map"]


def _names_files(node: Node) -> bool:
    return node.get("type") == "BASE_TABLE" and str(node["table_name"]).lower() == FILES


def _only_name(node: object) -> str | None:
    if not isinstance(node, dict):
        return None
    known = cast("Node", node)
    if known.get("class") != "COLUMN_REF" or len(known["column_names"]) != 1:
        return None
    return str(known["column_names"][0]).lower()


def names_in(tree: object) -> frozenset[str]:
    references = (node for node in nodes_in(tree) if node.get("class") == "COLUMN_REF")
    return frozenset(str(name).lower() for node in references for name in node["column_names"])


def _ordinal(node: Node) -> int | None:
    if node["class"] != "CONSTANT" or node["literal"]["kind"] != "INTEGER":
        return None
    return int(node["literal"]["text"])


def _count(node: Node | None) -> int | None:
    if node is None:
        return None
    count = _ordinal(node)
    if count is None:
        raise TogetherError("its LIMIT or OFFSET is no plain number")
    return count


def _node(kind: str, **parts: object) -> Node:
    return {"class": kind, "type": kind, "alias": "", "query_location": 0, "query_location_length": 0, **parts}


_EMPTY: Final = {"type": "EMPTY", "alias": "", "sample": None, "query_location": 0, "query_location_length": 0}


def _constant(number: int) -> Node:
    return _node("CONSTANT", type="VALUE_CONSTANT", literal={"kind": "INTEGER", "text": str(number)})


def _column(name: str) -> Node:
    return _node("COLUMN_REF", column_names=[name])


def _star(without: Sequence[str]) -> Node:
    lists: dict[str, object] = {name: [] for name in ("replace_list", "qualified_exclude_list", "rename_list")}
    return _node("STAR", relation_name="", exclude_list=list(without), columns=False, expr=None, **lists)


def _named(expression: Node, name: str) -> Node:
    return {**copy.deepcopy(expression), "alias": name}


def _table(name: str) -> Node:
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


def _select(select_list: list[Node], table: Node, where: Node | None, modifiers: list[Node]) -> Node:
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


def _bare(query: Node, select_list: list[Node]) -> Node:
    """Something else of the same relation."""
    made = _select(copy.deepcopy(select_list), copy.deepcopy(query["from_table"]), None, [])
    return {**made, "cte_map": copy.deepcopy(query["cte_map"])}


def _scope(query: Node) -> Node:
    return _bare(query, [_star(())])


def single_select(expression: Node) -> Node:
    """A query that gives one value."""
    return _select([expression], _EMPTY, None, [])


def renamed_files(query: Node, name: str) -> Node:
    """The query over another table: what somebody could write to merge parts."""
    made = copy.deepcopy(query)
    for node in nodes_in(made):
        if _names_files(node):
            node |= {
                "table_name": name,
                "qualified_name": {"path": [name]},
                "alias": node["alias"] or node["table_name"],
            }
    return made
