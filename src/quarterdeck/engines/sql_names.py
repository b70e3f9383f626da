"""The names of the columns of the result, and what they stand for."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, cast

from quarterdeck.engines.sql_aggregates import is_aggregate
from quarterdeck.engines.sql_looks import names_in, only_name
from quarterdeck.engines.sql_relations import TogetherError, expressions_in
from quarterdeck.engines.sql_tree import Node, folded, nodes_in

_NODES_MAX: Final = 50_000
"""Of expressions in which names of others were replaced: each may double them."""


class _Place(Enum):
    """Where a name stands."""

    RESULT = auto()
    HAVING = auto()
    ROW = auto()
    """Where there are rows of files and no groups yet: in a WHERE or an aggregate."""


@dataclass
class Names:
    items: list[Node] = field(default_factory=list[Node])
    """Of the select list, without names of each other."""
    by_name: dict[str, int] = field(default_factory=dict[str, int])
    used: set[str] = field(default_factory=set[str])
    """That were taken for columns of the result."""

    @classmethod
    def of(cls, select_list: Sequence[Node]) -> "Names":
        names = cls()
        for place, item in enumerate(select_list):
            names.items.append(names.resolved(item))
            if item["alias"]:
                names.by_name.setdefault(folded(item["alias"]), place)
        return names

    def resolved(self, expression: Node) -> Node:
        """With what names of results stand for in place of them."""
        return self._bounded(self._resolved(expression, _Place.RESULT))

    def resolved_where(self, expression: Node) -> Node:
        """As above. There is no aggregate in a WHERE: a name of one is that of a column, or wrong."""
        return self._bounded(self._resolved(expression, _Place.ROW))

    def _bounded(self, found: Node) -> Node:
        if sum(1 for _ in nodes_in(found)) > _NODES_MAX:
            raise TogetherError("its columns name each other too often to be divided")
        return found

    def resolved_having(self, expression: Node) -> Node:
        """As above. In a HAVING, and only there, the name of a result comes before that of a column."""
        return cast("Node", self._resolved(expression, _Place.HAVING))

    def place_of(self, expression: Node) -> int | None:
        """The column of the result that is named, if nothing else stands there."""
        name = only_name(expression)
        return None if name is None else self.by_name.get(name)

    def _resolved(self, tree: Any, where: _Place) -> Any:
        if isinstance(tree, list):
            return [self._resolved(each, where) for each in cast("list[Any]", tree)]
        if not isinstance(tree, dict):
            return tree
        node = cast("Node", tree)
        if node.get("class") in ("SUBQUERY", "LAMBDA"):
            names = {only_name(each) for each in nodes_in(node)}
            if names & self.by_name.keys():
                raise TogetherError("a query or lambda within an expression uses a name of the result")
        place, name = self.place_of(node), only_name(node)
        if place is not None and name is not None:
            item = self.items[place]
            is_column = name in names_in(item)  # what a result is made of is no name of a result
            if is_column and where is _Place.HAVING and only_name(item) != name:
                raise TogetherError(f"{name} in its HAVING may be a column or a result")
            if is_column or (where is _Place.ROW and any(map(is_aggregate, expressions_in(item)))):
                return node
            if where is not _Place.HAVING:
                self.used.add(name)
            return {**copy.deepcopy(item), "alias": node["alias"]}
        within = _Place.ROW if is_aggregate(node) else where
        return {part: self._resolved(value, within) for part, value in node.items()}
