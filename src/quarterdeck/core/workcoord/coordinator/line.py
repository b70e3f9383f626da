"""A line: works that wait, taken in turns by query. A work may leave from anywhere, a query with all its works at once.

Queries take turns, so that one with a hundred thousand works does not stand in the way of one with three. The works of
one query keep their order, but those that were given out and came back go first. Of a query with an accused work only
that one has a turn. Nothing here is linear in the number of works.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from quarterdeck.core.workcoord.coordinator.records import Query, Work


class Line:
    __slots__ = ("_queries",)

    def __init__(self) -> None:
        # OrderedDict and not dict: the first of a dict whose front was deleted is found by walking over the gap.
        self._queries: OrderedDict[Query, OrderedDict[Work, None]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(works) for works in self._queries.values())

    def __bool__(self) -> bool:
        return bool(self._queries)

    def push(self, work: Work) -> None:
        works = self._queries.get(work.query)
        if works is None:
            works = self._queries[work.query] = OrderedDict()
            work.query.lines[self] = None
        works[work] = None
        if work.number:  # its query has waited for it once already
            works.move_to_end(work, last=False)

    def head(self) -> Work | None:
        """Whose turn it is. An accused work waits with the suspects, whom `first` lists."""
        for query, works in self._queries.items():
            if query.accused is None:
                return next(iter(works))
        return None

    def first(self, limit: int) -> list[Work]:
        """Up to so many works, query by query."""
        return list(islice(self._in_turn(), limit))

    def _in_turn(self) -> Iterator[Work]:
        for query, works in self._queries.items():
            if query.accused is None:
                yield from works
            elif query.accused in works:
                yield query.accused

    def remove(self, work: Work) -> None:
        """A work leaves; its query has had its turn."""
        works = self._queries[work.query]
        del works[work]
        if works:
            self._queries.move_to_end(work.query)
        else:
            self.forget(work.query)

    def forget(self, query: Query) -> None:
        """A query leaves, with all its works."""
        del self._queries[query]
        del query.lines[self]
