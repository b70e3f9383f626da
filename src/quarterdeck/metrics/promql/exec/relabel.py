"""`label_replace` and `label_join`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import Axis, Grid, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import LABEL_CHARACTERS, PAIR_BYTES, ROW_BYTES, check_label
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.regex import InvalidRegex, Regex, compile_anchored

_ASK_BYTES: Final = 1 << 16
"""So much is made before it is asked for: for each label by itself that would take as long as making it."""
_FEW_SOURCES: Final = 16
"""What is made of so many labels, each short enough, is never much too long: it is looked at when it is made."""


@dataclass
class RelabelNode:
    """Other labels, the same values. The labels are made once for each axis that comes."""

    plan: pn.Relabel
    operand: ExecNode
    context: Context
    known: Remembered[Axis] = field(default_factory=Remembered[Axis])
    held_bytes: int = 0
    """What the labels take that are remembered."""

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
        """The labels are held as long as they are remembered: a chain of functions has all of its texts at once."""
        change = self._replaced if self.plan.function == "label_replace" else self._joined
        target, memory = self.plan.args[0], self.context.memory
        memory.hold(-self.held_bytes)
        self.held_bytes = 0
        changed: list[Labels] = []
        named: list[bool] = []
        made_bytes = 0
        for labels in self.context.watched(axis.labels):
            value = change(labels)
            named.append(value is not None and target == METRIC_NAME)
            if value is None:
                changed.append(labels)
                continue
            changed.append(lb.replace(labels, ((target, value),)))
            made_bytes += max(ROW_BYTES, PAIR_BYTES * len(labels)) + value.__sizeof__()
            if made_bytes > _ASK_BYTES:
                self._hold(made_bytes)
                made_bytes = 0
        self._hold(made_bytes)
        # A name that the query sets on purpose stays.
        return Axis(tuple(changed), axis.nameless & ~np.array(named, np.bool_))

    def _hold(self, size_bytes: int) -> None:
        self.context.memory.hold(size_bytes)
        self.held_bytes += size_bytes

    def _replaced(self, labels: Labels) -> str | None:
        _, template, source, _ = self.plan.args
        return self.regex.expand(template, lb.get(labels, source), self._check)

    def _joined(self, labels: Labels) -> str:
        _, separator, *sources = self.plan.args
        values = [lb.get(labels, source) for source in sources]
        if len(values) > _FEW_SOURCES:
            self._check(sum(map(len, values)) + len(separator) * (len(values) - 1))
        value = separator.join(values)
        self._check(len(value))
        return value

    def _check(self, characters: int) -> None:
        if characters > LABEL_CHARACTERS:
            check_label(characters, self.plan.function)


def is_label_name(name: str) -> bool:
    """Whether a label may have this name: any text that has a UTF-8 form, except none."""
    return bool(name) and not any("\ud800" <= character <= "\udfff" for character in name)
