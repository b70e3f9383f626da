"""Which series of an aggregation come together."""

from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import I64, Axis
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels


@dataclass
class Grouping:
    """The `by` or `without` of an aggregation; groups are found once for each axis."""

    names: tuple[str, ...]
    without: bool
    context: Context
    known: Remembered[tuple[I64, Axis]] = field(default_factory=Remembered[tuple[I64, Axis]])

    def of(self, axis: Axis) -> tuple[I64, Axis]:
        """For each series its group, and the groups as series."""
        return self.known.of((axis,), lambda: self._find(axis))

    def _find(self, axis: Axis) -> tuple[I64, Axis]:
        rows: dict[Labels, int] = {}
        if not self.names and not self.without:
            place = np.zeros(len(axis), np.int64)
            rows = {(): 0} if len(axis) else {}
        else:
            names = frozenset((*self.names, METRIC_NAME) if self.without else self.names)
            kept = lb.drop if self.without else lb.keep
            self.context.memory.need(len(axis) * axis.row_bytes)
            groups = (kept(labels, names) for labels in self.context.watched(axis.labels))
            place = np.array([rows.setdefault(group, len(rows)) for group in groups], np.int64)
        nameless = np.zeros(len(rows), np.bool_)
        nameless[place[axis.nameless]] = True
        return place, Axis(tuple(rows), nameless)
