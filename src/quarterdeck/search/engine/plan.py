"""How a search is shared between whoever searches chunks and whoever gathers.

A chunk does what can be done without the others: it cuts fields away, and computes its part of the first stage that
makes fewer rows of many. Gathering puts the parts together and does the rest. Both sides derive the same plan from the
same search.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from quarterdeck.search.language.ast import Cut, Head, ListFields, Search, Sort, Stage, Summarize, Tail, Uniq
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import Order, SearchSpec


class Part(StrEnum):
    """What the rows of a chunk are."""

    RECORDS = "records"
    """All that match."""
    SOME = "some"
    """The first or last of a number, in the order that the stages before make."""
    DISTINCT = "distinct"
    """One of each, with how many there are."""
    GROUPS = "groups"
    """States of aggregates."""
    FIELDS = "fields"
    """Names of fields, with how many records have them."""


@dataclass(frozen=True, slots=True)
class Plan:
    search: Search
    order: Order
    """INPUT instead of TIME where there is no time."""
    part: Part
    cuts: tuple[Cut, ...]
    """What a chunk does first."""
    sorts: tuple[Sort, ...]
    """The order in which it takes the first or last, if other than that of the search."""
    stage: Stage | None
    """Of which it computes its part."""
    rest: tuple[Stage, ...]
    """What gathering does: for records, some of them and distinct ones also the sorts and the stage."""

    @property
    def first(self) -> int | None:
        """With n, the first n records that are found are the answer; None if it takes more to know it."""
        if self.part is Part.SOME and isinstance(self.stage, Head) and not self.sorts and self.order is not Order.TIME:
            return self.stage.count
        return None

    @property
    def is_streamed(self) -> bool:
        """Whether rows can be given out as chunks come."""
        is_plain = self.part is Part.RECORDS and not self.rest
        return self.order is not Order.TIME and (is_plain or (self.first is not None and len(self.rest) == 1))


@lru_cache(maxsize=256)
def plan_search(spec: SearchSpec) -> Plan:
    """Raises `SearchSyntaxError`."""
    search = parse_search(spec.query)
    order = Order.INPUT if spec.order is Order.TIME and spec.time_field is None else spec.order
    left = list(search.stages)
    cuts: list[Cut] = []
    while left and isinstance(cut := left[0], Cut):
        cuts.append(cut)
        del left[0]
    rest = tuple(left)
    sorts: list[Sort] = []
    while left and isinstance(sort := left[0], Sort):
        sorts.append(sort)
        del left[0]
    match left[0] if left else None:
        case Summarize() as stage:
            return Plan(search, order, Part.GROUPS, tuple(cuts), (), stage, tuple(left[1:]))
        case ListFields() as stage:
            return Plan(search, order, Part.FIELDS, tuple(cuts), (), stage, tuple(left[1:]))
        case Uniq() as stage:
            return Plan(search, order, Part.DISTINCT, tuple(cuts), tuple(sorts), stage, rest)
        case Head() | Tail() as stage:
            return Plan(search, order, Part.SOME, tuple(cuts), tuple(sorts), stage, rest)
        case _:
            return Plan(search, order, Part.RECORDS, tuple(cuts), (), None, rest)
