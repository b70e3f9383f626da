"""How a query without groups, but with DISTINCT or ORDER BY, is divided: its parts give their rows, and the values that
these are sorted by."""

import copy

from quarterdeck.engines.sql_looks import (
    form_of,
    insist_liftable,
    is_all,
    names_mentioned,
    only_name,
    only_table,
    ordinal,
)
from quarterdeck.engines.sql_made import column_of, constant_of, named, scope_of, select_of, star_of, table_of
from quarterdeck.engines.sql_modifiers import Modifiers
from quarterdeck.engines.sql_names import Names
from quarterdeck.engines.sql_relations import TogetherError, expressions_in, is_volatile
from quarterdeck.engines.sql_tree import Node
from quarterdeck.engines.sql_way import PARTS, Split, Way


class Sorted:
    def __init__(self, query: Node, modifiers: Modifiers) -> None:
        self._query = query
        self._modifiers = modifiers
        self._names = Names.of(query["select_list"])
        self._table = only_table(query)
        self._extra: list[Node] = []

    def split(self) -> Split:
        query, modifiers = self._query, self._modifiers
        insist_liftable([query["select_list"], modifiers.orders], ("COLLATE", "POSITIONAL_REFERENCE"))
        merging = copy.deepcopy(query["modifiers"])
        for order in (order for each in merging for order in each.get("orders", ())):
            order["expression"] = self._order(order["expression"])
        part = modifiers.pushed_to(query)
        if modifiers.is_distinct and modifiers.orders:  # the first of a part need not be among the first of all
            part["modifiers"] = [each for each in part["modifiers"] if each["type"] == "DISTINCT_MODIFIER"]
        elif modifiers.limit is None:
            part["modifiers"] = [each for each in part["modifiers"] if each["type"] != "ORDER_MODIFIER"]
        part["select_list"] = [*part["select_list"], *self._extra]
        hidden = [str(item["alias"]) for item in self._extra]
        star = star_of(hidden)
        return Split(
            Way.MERGED,
            part=part,
            outer=select_of([star], table_of(PARTS), None, merging),
            scope=scope_of(query),
            names=names_mentioned(query),
            not_columns=frozenset({*self._names.used, *hidden}) if self._has_star() else frozenset(self._names.used),
        )

    def _order(self, expression: Node) -> Node:
        """What the rows of parts are sorted by."""
        if ordinal(expression) is not None or is_all(expression):
            return expression
        if any(node.get("class") == "STAR" for node in expressions_in(expression)):
            raise TogetherError("it sorts by a * or COLUMNS: name the columns")
        place = self._place(expression)
        if place is not None:
            return constant_of(place + 1)
        if self._modifiers.is_distinct:
            name = only_name(expression)
            if name is None or not self._has_star():
                raise TogetherError("it has DISTINCT and sorts by what is not a column of its result")
            return column_of(name)
        resolved = self._names.resolved(expression)
        if is_volatile(resolved):
            raise TogetherError("it sorts by a value by chance")
        column = f"__o{len(self._extra)}"
        self._extra.append(named(resolved, column))
        return column_of(column)

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
        return form_of(expression, self._table)
