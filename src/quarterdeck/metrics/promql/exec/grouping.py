"""Which series of an aggregation come together."""

from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import I64, Axis
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels


@dataclass
class Grouping:
    """The `by` or `without` of an aggregation; groups are found once for each axis."""

    names: tuple[str, ...]
    without: bool
    known: dict[int, tuple[Axis, I64, Axis]] = field(default_factory=dict[int, tuple[Axis, I64, Axis]])
    """By the id of an axis, which is kept so that the id stays its own."""

    def of(self, axis: Axis) -> tuple[I64, Axis]:
        """For each series its group, and the groups as series."""
        if id(axis) not in self.known:
            self.known[id(axis)] = (axis, *self._find(axis))
        return self.known[id(axis)][1:]

    def _find(self, axis: Axis) -> tuple[I64, Axis]:
        rows: dict[Labels, int] = {}
        if not self.names and not self.without:
            place = np.zeros(len(axis), np.int64)
            rows = {(): 0} if len(axis) else {}
        else:
            names = frozenset((*self.names, METRIC_NAME) if self.without else self.names)
            kept = lb.drop if self.without else lb.keep
            place = np.array([rows.setdefault(kept(labels, names), len(rows)) for labels in axis.labels], np.int64)
        nameless = np.zeros(len(rows), np.bool_)
        nameless[place[axis.nameless]] = True
        return place, Axis(tuple(rows), nameless)
