"""A line: works that wait, taken in turns by query. A work may leave from anywhere, a query with all its works at once.

Queries take turns, so that one with a hundred thousand works does not stand in the way of one with three. The works of
one query keep their order, but those that were given out and came back go first. Light works have their turns before
others, but not all turns. Of a query with an accused work only that one has a turn. Nothing here is linear in the
number of works.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from quarterdeck.core.workcoord.coordinator.records import Query, Work
from quarterdeck.core.workcoord.load import LightFirst

_Queries: TypeAlias = OrderedDict[Query, OrderedDict[Work, None]]
"""OrderedDict and not dict: the first of a dict whose front was deleted is found by walking over the gap."""


class Line:
    __slots__ = ("_light", "_others", "_turns")

    def __init__(self) -> None:
        self._light: _Queries = OrderedDict()
        self._others: _Queries = OrderedDict()
        self._turns = LightFirst()

    def __len__(self) -> int:
        return sum(len(works) for queries in (self._light, self._others) for works in queries.values())

    def __bool__(self) -> bool:
        return bool(self._light or self._others)

    def push(self, work: Work) -> None:
        queries = self._light if work.spec.is_light else self._others
        works = queries.get(work.query)
        if works is None:
            works = queries[work.query] = OrderedDict()
            work.query.lines[self] = None
        works[work] = None
        if work.number:  # its query has waited for it once already
            works.move_to_end(work, last=False)

    def head(self) -> Work | None:
        """Whose turn it is. An accused work waits with the suspects, whom `first` lists."""
        for queries in self._turns.order(self._light, self._others):
            for query, works in queries.items():
                if query.accused is None:
                    return next(iter(works))
        return None

    def first(self, limit: int) -> list[Work]:
        """Up to so many works, query by query."""
        return list(islice(self._in_turn(), limit))

    def _in_turn(self) -> Iterator[Work]:
        for queries in self._turns.order(self._light, self._others):
            for query, works in queries.items():
                if query.accused is None:
                    yield from works
                elif query.accused in works:
                    yield query.accused

    def remove(self, work: Work) -> None:
        """A work leaves; its query has had its turn."""
        is_light = work.spec.is_light
        queries = self._light if is_light else self._others
        works = queries[work.query]
        del works[work]
        self._turns.had(is_light=is_light)
        if works:
            queries.move_to_end(work.query)
            return
        del queries[work.query]
        if work.query not in self._light and work.query not in self._others:
            del work.query.lines[self]

    def forget(self, query: Query) -> None:
        """A query leaves, with all its works."""
        for queries in (self._light, self._others):
            queries.pop(query, None)
        del query.lines[self]
