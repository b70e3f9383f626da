"""What comes after a query: DISTINCT, ORDER BY, LIMIT."""

import copy
from collections.abc import Sequence
from typing import Final

from quarterdeck.engines.sql_looks import ordinal
from quarterdeck.engines.sql_made import constant_of
from quarterdeck.engines.sql_relations import TogetherError
from quarterdeck.engines.sql_tree import Node

_LIMIT_MAX: Final = 2**63 - 1


class Modifiers:
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
            count = constant_of(min(self.limit + self.offset, _LIMIT_MAX))
            limit = {"type": "LIMIT_MODIFIER", "limit": count, "offset": None, "limit_type": "ROW_COUNT"}
            part["modifiers"].append(limit)
        return part


def _count(node: Node | None) -> int | None:
    if node is None:
        return None
    count = ordinal(node)
    if count is None:
        raise TogetherError("its LIMIT or OFFSET is not a plain number")
    return count
