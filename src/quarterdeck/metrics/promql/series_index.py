"""`SeriesIndex`: which of many series some matchers take.

For each label name it knows which series has which value, so that a matcher is tried once for each distinct value and
never for each series. Nothing changes after construction; any thread may ask.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import Bool
from quarterdeck.metrics.promql.label_values import takes_each
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.matchers import accepts

_ABSENT: Final = 0
"""The code of the empty value: that of a series without the label."""


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """One label over all series: `codes[i]` is the place in `values` of what series `i` has."""

    values: dict[str, int]
    codes: NDArray[np.int32]

    def matching(self, matcher: Matcher, need: Callable[[int], None]) -> Bool:
        """Which series the matcher takes."""
        if matcher.op is MatchOp.EQUAL:
            return self.codes == self.values.get(matcher.value, -1)
        if matcher.op is MatchOp.NOT_EQUAL:
            return self.codes != self.values.get(matcher.value, -1)
        return takes_each(matcher, tuple(self.values), lambda: need(0))[self.codes]


class SeriesIndex:
    """The labels of some series, by name and value."""

    def __init__(self, labels: Sequence[Labels]) -> None:
        self._count: Final = len(labels)
        self._columns: Final[dict[str, _Column]] = {}
        columns = self._columns
        for row, pairs in enumerate(labels):
            for name, value in pairs:
                column = columns.get(name)
                if column is None:
                    column = columns[name] = _Column({"": _ABSENT}, np.zeros(len(labels), dtype=np.int32))
                column.codes[row] = column.values.setdefault(value, len(column.values))

    def matching(self, matchers: Sequence[Matcher], need: Callable[[int], None]) -> Bool:
        """Which series all matchers take. `need` is called with 0 now and then, and raises to stop."""
        keep = np.ones(self._count, dtype=np.bool_)
        for matcher in matchers:
            need(0)
            column = self._columns.get(matcher.name)
            if column is not None:
                keep &= column.matching(matcher, need)
            elif not accepts(matcher, ""):
                return np.zeros(self._count, dtype=np.bool_)
        return keep
