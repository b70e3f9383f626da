"""`label_replace` and `label_join`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import Axis, Grid, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import ROW_BYTES
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.regex import InvalidRegex, Regex, compile_anchored


@dataclass
class RelabelNode:
    """Other labels, the same values. The labels are made once for each axis that comes."""

    plan: pn.Relabel
    operand: ExecNode
    context: Context
    known: Remembered[Axis] = field(default_factory=Remembered[Axis])

    def __post_init__(self) -> None:
        # The order of these checks decides which of several mistakes is told; it is Prometheus'.
        target, _, *sources = self.plan.args
        if self.plan.function == "label_replace":
            _ = self.regex
        else:
            self._check_names("source", sources)
        self._check_names("destination", (target,))

    def _check_names(self, kind: str, names: Sequence[str]) -> None:
        for name in names:
            if not is_label_name(name):
                raise ExecutionError(f"invalid {kind} label name in {self.plan.function}(): {name}")

    @cached_property
    def regex(self) -> Regex:
        """The pattern of `label_replace`."""
        try:
            return compile_anchored(self.plan.args[3])
        except InvalidRegex:
            raise ExecutionError(f"invalid regular expression in label_replace(): {self.plan.args[3]}") from None

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        axis = self.known.of((block.axis,), lambda: self._relabelled(block.axis))
        return unite(VectorBlock(axis, block.values, block.present, block.histograms), self.context)

    def _relabelled(self, axis: Axis) -> Axis:
        change = self._replaced if self.plan.function == "label_replace" else self._joined
        changed: list[tuple[Labels, bool]] = []
        size_bytes = 0
        for labels in self.context.watched(axis.labels):
            new, named = change(labels)
            # A template may make much out of little.
            size_bytes += ROW_BYTES + len(lb.get(new, self.plan.args[0]))
            self.context.memory.need(size_bytes)
            changed.append((new, named))
        # A name that the query sets on purpose stays.
        kept = np.array([named for _, named in changed], np.bool_)
        return Axis(tuple(labels for labels, _ in changed), axis.nameless & ~kept)

    def _replaced(self, labels: Labels) -> tuple[Labels, bool]:
        target, template, source, _ = self.plan.args
        value = self.regex.expand(template, lb.get(labels, source))
        if value is None:
            return labels, False
        return lb.replace(labels, ((target, value),)), target == METRIC_NAME

    def _joined(self, labels: Labels) -> tuple[Labels, bool]:
        target, separator, *sources = self.plan.args
        value = separator.join(lb.get(labels, source) for source in sources)
        return lb.replace(labels, ((target, value),)), target == METRIC_NAME


def is_label_name(name: str) -> bool:
    """Whether a label may have this name: any text that has a UTF-8 form, except none."""
    return bool(name) and not any("\ud800" <= character <= "\udfff" for character in name)
