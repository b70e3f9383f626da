"""How a query with aggregates or GROUP BY is divided: its parts give groups, with aggregates of their rows."""

import copy
from typing import Any, Final, cast

from quarterdeck.engines.sql_aggregates import Merge, is_aggregate, merge_of
from quarterdeck.engines.sql_looks import form_of, insist_liftable, is_all, names_mentioned, only_table, ordinal
from quarterdeck.engines.sql_made import bare, column_of, constant_of, named, scope_of, select_of, table_of
from quarterdeck.engines.sql_modifiers import Modifiers
from quarterdeck.engines.sql_names import Names
from quarterdeck.engines.sql_relations import (
    TogetherError,
    expressions_in,
    gathering_expression,
    is_volatile,
)
from quarterdeck.engines.sql_tree import Node, folded, nodes_in
from quarterdeck.engines.sql_way import MERGED, Aggregate, Split, Way

_COLUMNS: Final = frozenset({"COLUMN_REF", "POSITIONAL_REFERENCE"})
_UNDIVIDED: Final = frozenset({"SUBQUERY", "LAMBDA", "WINDOW", "STAR", "COLLATE", "POSITIONAL_REFERENCE", "DEFAULT"})
"""What stands above groups and cannot be moved to where only groups are."""


class Groups:
    """A query with aggregates or GROUP BY."""

    def __init__(self, query: Node, modifiers: Modifiers) -> None:
        self._query = query
        self._modifiers = modifiers
        self._table = only_table(query)
        self._names = Names.of(query["select_list"])
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
        outer = select_of(select_list, table_of(MERGED), having, modifiers)
        columns = [*self._key_items, *self._values, *self._part_items]
        part = bare(query, columns or [named(constant_of(1), "__n0")])
        keys = len(self._key_items) + len(self._values)
        part["group_expressions"] = [constant_of(place + 1) for place in range(keys)]
        part["group_sets"] = [list(range(keys))] if keys else []
        if query["where_clause"] is not None:
            part["where_clause"] = self._names.resolved_where(query["where_clause"])
        if any(each.function == "any_value" for each in self._aggregates.values()):
            self._insist_first()
        if not keys and not self._part_items:
            raise TogetherError("it has groups without a column")
        return Split(
            Way.MERGED,
            part=part,
            keys=tuple(str(item["alias"]) for item in self._key_items),
            aggregates=tuple(self._aggregates.values()),
            is_grouped=True,
            outer=outer,
            scope=scope_of(query),
            probes=bare(query, self._probes) if self._probes else None,
            names=names_mentioned(query),
            not_columns=frozenset(self._names.used),
        )

    def _insist_first(self) -> None:
        """What any_value gives is what comes first."""
        if self._values:
            raise TogetherError("it has any_value beside DISTINCT values, which change what comes first")
        if any(node.get("type") == "JOIN" for node in nodes_in([self._query["from_table"], self._query["cte_map"]])):
            raise TogetherError("it has any_value of rows of a JOIN, which come in no order")
        if any(node.get("class") == "SUBQUERY" for node in nodes_in(self._query)):  # DuckDB makes joins of them
            raise TogetherError("it has any_value beside a query within an expression, which changes what comes first")

    def _group_expressions(self) -> list[Node]:
        query, names = self._query, self._names
        if query["aggregate_handling"] == "FORCE_AGGREGATES":  # GROUP BY ALL
            items = [item for item in names.items if not any(map(is_aggregate, expressions_in(item)))]
            return [item for item in items if _names_columns(item)]
        keys: list[Node] = []
        for expression in query["group_expressions"]:
            place = ordinal(expression)
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
        insist_liftable(expression, ("COLLATE", "STAR", "POSITIONAL_REFERENCE"))
        if is_volatile(expression):
            raise TogetherError("it groups by a value by chance")
        form = self._form(expression)
        if form not in self._keys:
            self._keys[form] = len(self._key_items)
            self._key_items.append(named(expression, f"__k{len(self._key_items)}"))

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
                return column_of(f"__k{key}")
            if is_aggregate(node):
                return column_of(self._aggregate(node).result)
            if node["class"] in _UNDIVIDED or node["type"] == "GROUPING_FUNCTION":
                raise TogetherError(f"a {str(node['type']).replace('_', ' ')} stands above its groups")
            if node["class"] == "COLUMN_REF":
                raise TogetherError(f"{'.'.join(node['column_names'])} stands above its groups and is none of them")
        return {part: self._lift(value) for part, value in node.items()}

    def _lifted_order(self, expression: Node) -> Node:
        if ordinal(expression) is not None or is_all(expression):  # ORDER BY 2, ORDER BY ALL
            return expression
        place = self._names.place_of(expression)
        if place is not None:
            return constant_of(place + 1)
        return self._lifted(self._names.resolved(expression))

    def _aggregate(self, call: Node) -> Aggregate:
        form = self._form(call)
        if form not in self._aggregates:
            self._aggregates[form] = self._new_aggregate(call)
        return self._aggregates[form]

    def _new_aggregate(self, call: Node) -> Aggregate:
        function = folded(call["function_name"])
        merge = merge_of(call)
        if merge is None:
            raise TogetherError(_why_not(call, function))
        arguments = [each["expression"] for each in call["arguments"]]
        below = [*arguments, call["filter"]]
        why = gathering_expression(below)
        if why is not None:
            raise TogetherError(f"what stands in {function} {why}")
        insist_liftable(below, ("COLLATE", "STAR", "POSITIONAL_REFERENCE"))
        result = f"__r{len(self._aggregates)}"
        if merge is Merge.DISTINCT:
            column = self._value(arguments[0])
            filtered = None if call["filter"] is None else self._value(call["filter"])
            return Aggregate(column, result, function, merge, filter_column=filtered)
        column = f"__a{len(self._part_items)}"
        state = merge in (Merge.STATE, Merge.AVERAGE)
        self._part_items.append(named({**call, "export_state": state}, column))
        probe = None
        if merge is Merge.AVERAGE:
            probe = len(self._probes)
            self._probes.append(named(arguments[0], f"__p{probe}"))
        return Aggregate(column, result, function, merge, len(arguments), probe)

    def _value(self, expression: Node) -> str:
        if is_volatile(expression):
            raise TogetherError("it has DISTINCT values by chance")
        for item in self._values:
            if self._form(item) == self._form(expression):
                return str(item["alias"])
        column = f"__d{len(self._values)}"
        self._values.append(named(expression, column))
        return column

    def _form(self, expression: Node) -> str:
        """The same for expressions that mean the same column or value, however they are written."""
        return form_of(expression, self._table)


def _names_columns(item: Node) -> bool:
    """GROUP BY ALL passes over values that name no column: with them alone there is one group, even of no rows."""
    if not any(node.get("class") in _COLUMNS for node in nodes_in(item)):
        return False
    left: list[object] = [item]
    while left:
        tree = left.pop()
        if isinstance(tree, list):
            left.extend(cast("list[object]", tree))
        elif isinstance(tree, dict):
            node = cast("Node", tree)
            if node.get("class") in _COLUMNS:
                return True
            if node.get("class") not in ("SUBQUERY", "LAMBDA"):  # names within them may be their own
                left.extend(node.values())
    raise TogetherError("its GROUP BY ALL may mean a query or lambda, or not: name what it groups by")


def _why_not(call: Node, function: str) -> str:
    """Why an aggregate is not merged."""
    if call["order_bys"]["orders"]:
        return f"its {function} depends on the order of rows"
    if len(call["arguments"]) > 1 and merge_of({**call, "arguments": call["arguments"][:1]}) is not None:
        return f"its {function} has {len(call['arguments'])} arguments"
    return f"{function} of parts does not make {function} of the whole"
