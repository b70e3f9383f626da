"""The names of the columns of the result, and what they stand for."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from quarterdeck.engines.sql_looks import names_in, only_name
from quarterdeck.engines.sql_relations import TogetherError
from quarterdeck.engines.sql_tree import Node, nodes_in

_NODES_MAX: Final = 50_000
"""Of expressions in which names of others were replaced: each may double them."""


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
        name = only_name(expression)
        return None if name is None else self.by_name.get(name)

    def _resolved(self, tree: Any, *, is_having: bool) -> Any:
        if isinstance(tree, list):
            return [self._resolved(each, is_having=is_having) for each in cast("list[Any]", tree)]
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
            if is_column and is_having and only_name(item) != name:
                raise TogetherError(f"{name} in its HAVING may be a column or a result")
            if is_column:
                return node
            if not is_having:
                self.used.add(name)
            return {**copy.deepcopy(item), "alias": node["alias"]}
        return {part: self._resolved(value, is_having=is_having) for part, value in node.items()}
