"""Operators between two vectors: which series of either side belong together.

Which do is decided once for a pair of axes, by their labels alone. What can only be seen at a step is whether series
that must not be there together are: then the query is an error, as it is in Prometheus.
"""

from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Bool, Grid, Objects, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.binary import Answer, Cells, operate
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import PAIR_BYTES
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import Cardinality, VectorMatching


def signature(labels: Labels, matching: VectorMatching, names: frozenset[str]) -> Labels:
    """What two series must have in common to belong together; `names` are the matching's labels."""
    if matching.on:
        return lb.keep(labels, names)
    return lb.drop(labels, names | {METRIC_NAME})


def ordinals(lhs: Axis, rhs: Axis, matching: VectorMatching, context: Context) -> tuple[I64, I64, int]:
    """For each series of either side the number of its signature, and how many there are."""
    context.memory.need(len(lhs) * lhs.row_bytes + len(rhs) * rhs.row_bytes)
    names = frozenset(matching.labels)
    known: dict[Labels, int] = {}

    def numbers(axis: Axis) -> I64:
        signatures = (signature(labels, matching, names) for labels in context.watched(axis.labels))
        return np.array([known.setdefault(one, len(known)) for one in signatures], np.int64)

    return numbers(lhs), numbers(rhs), len(known)


def any_in_group(present: Bool, groups: I64, count: int) -> Bool:
    """For each group (row) and step whether any of its series is there."""
    found = np.zeros((count, present.shape[1]), np.bool_)
    if len(groups):
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        found[ordered[starts]] = np.logical_or.reduceat(present[order], starts, axis=0)
    return found


def count_in_group(present: Bool, groups: I64, count: int) -> I64:
    """For each group (row) and step how many of its series are there."""
    found = np.zeros((count, present.shape[1]), np.int64)
    if len(groups):
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        found[ordered[starts]] = np.add.reduceat(present[order].astype(np.int64), starts, axis=0)
    return found


@dataclass(frozen=True, eq=False)
class Pairing:
    """Which rows of the many side and of the one side meet, and what the result of each pair is called."""

    many_signature: I64
    one_signature: I64
    signatures: int
    many: I64
    """For each pair the row of the many side; -1 where a fill value stands for it."""
    one: I64
    axis: Axis
    """The labels of each pair's result."""
    unique_key: I64
    """Pairs with the same key must not both be there at a step."""
    keys: int
    one_is_unique: bool
    pairs_are_unique: bool


@dataclass
class VectorVectorNode:
    """Arithmetic or comparison between the series of two vectors that belong together."""

    plan: pn.VectorVector
    lhs: ExecNode
    rhs: ExecNode
    context: Context
    known: Remembered[Pairing] = field(default_factory=Remembered[Pairing])

    def eval(self, grid: Grid) -> VectorBlock:
        lhs, rhs = vector(self.lhs, grid), vector(self.rhs, grid)
        swapped = self.plan.matching.cardinality is Cardinality.ONE_TO_MANY
        many, one = (rhs, lhs) if swapped else (lhs, rhs)
        pairing = self.known.of((many.axis, one.axis), lambda: self._pair(many.axis, one.axis))
        self.context.memory.need(len(pairing.many) * grid.count * 26)
        if (found := self._two_on_one_side(pairing, many, one)) is not None:
            # Of two mistakes the earlier is told.
            group, step = found
            self._answer(pairing, many.cut(0, step), one.cut(0, step))
            raise self._duplicate(pairing, one, group, step)
        answer = self._answer(pairing, many, one)
        values = np.ascontiguousarray(answer.values)
        return unite(VectorBlock(pairing.axis, values, answer.passed, answer.histograms), self.context)

    def _answer(self, pairing: Pairing, many: VectorBlock, one: VectorBlock) -> Answer:
        """What the operator says of each pair; the one side has no duplicates."""
        plan = self.plan
        both, fills = self._cells(pairing, many, one)
        many_cells = self._side(many, pairing.many, fills[0])
        one_cells = self._side(one, pairing.one, fills[1])
        swapped = plan.matching.cardinality is Cardinality.ONE_TO_MANY
        left, right = (one_cells, many_cells) if swapped else (many_cells, one_cells)
        answer = operate(plan.op, left, right, both, plan.return_bool, self.context, plan.span)
        possible = answer.possible
        if not pairing.pairs_are_unique and (count_in_group(possible, pairing.unique_key, pairing.keys) > 1).any():
            raise ExecutionError(
                "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
                if plan.matching.cardinality is Cardinality.ONE_TO_ONE
                else "multiple matches for labels: grouping labels must ensure unique matches"
            )
        return answer

    def _pair(self, many: Axis, one: Axis) -> Pairing:
        matching = self.plan.matching
        many_signature, one_signature, count = ordinals(many, one, matching, self.context)
        met = np.bincount(many_signature, minlength=count) @ np.bincount(one_signature, minlength=count)
        self.context.memory.need(int(met) * (many.row_bytes + PAIR_BYTES * len(matching.include)))
        many_ordinals: list[int] = many_signature.tolist()
        one_ordinals: list[int] = one_signature.tolist()
        ones: list[list[int]] = [[] for _ in range(count)]
        for row, ordinal in enumerate(one_ordinals):
            ones[ordinal].append(row)
        numbered = self.context.watched(enumerate(many_ordinals))
        pairs = [(row, other) for row, ordinal in numbered for other in ones[ordinal]]
        fill_many, fill_one = self._fills()
        if fill_one is not None:
            pairs += [(row, -1) for row in range(len(many))]
        if fill_many is not None:
            pairs += [(-1, row) for row in range(len(one))]
        names = frozenset(matching.labels)
        results = [self._result(many, one, row, other, names) for row, other in self.context.watched(pairs)]
        axis = Axis(tuple(labels for labels, _ in results), np.array([gone for _, gone in results], np.bool_))
        unique: dict[object, int] = {}
        keys = [
            unique.setdefault(
                ordinal if matching.cardinality is Cardinality.ONE_TO_ONE else (ordinal, labels), len(unique)
            )
            for ordinal, (labels, _) in zip(
                (many_ordinals[row] if row >= 0 else one_ordinals[other] for row, other in pairs),
                results,
                strict=True,
            )
        ]
        return Pairing(
            many_signature,
            one_signature,
            count,
            np.array([row for row, _ in pairs], np.int64),
            np.array([other for _, other in pairs], np.int64),
            axis,
            np.array(keys, np.int64),
            len(unique),
            all(len(rows) < 2 for rows in ones),
            len(unique) == len(pairs),
        )

    def _fills(self) -> tuple[float | None, float | None]:
        """The values that stand for what is missing on the many side and on the one side.

        With `group_right` the many side is the right one, and still `fill_left` is its value: so does Prometheus.
        """
        matching = self.plan.matching
        return matching.fill_left, matching.fill_right

    def _result(self, many: Axis, one: Axis, row: int, other: int, names: frozenset[str]) -> tuple[Labels, bool]:
        """The labels of a pair's result, and whether its name goes away at the end."""
        matching, op = self.plan.matching, self.plan.op
        if row >= 0:
            labels, gone = many.labels[row], bool(many.nameless[row])
        else:
            labels, gone = signature(one.labels[other], matching, names), False
        others = one.labels[other] if other >= 0 else signature(labels, matching, names)
        if not op.is_comparison and not op.is_trim:
            labels, gone = lb.drop_name(labels), False
        if matching.cardinality is Cardinality.ONE_TO_ONE:
            labels = lb.keep(labels, names) if matching.on else lb.drop(labels, names)
        if matching.include:
            labels = lb.replace(labels, ((name, lb.get(others, name)) for name in matching.include))
        return labels, gone or self.plan.return_bool

    def _cells(
        self, pairing: Pairing, many: VectorBlock, one: VectorBlock
    ) -> tuple[Bool, tuple[float | None, float | None]]:
        """Where both of a pair are there, or one is and the other is filled in."""
        fills = self._fills()
        if fills == (None, None):
            return many.present[pairing.many] & one.present[pairing.one], fills
        steps = many.present.shape[1]
        nothing = np.zeros((1, steps), np.bool_)
        many_there = np.concatenate((many.present, nothing))[pairing.many]
        one_there = np.concatenate((one.present, nothing))[pairing.one]
        any_many = any_in_group(many.present, pairing.many_signature, pairing.signatures)
        any_one = any_in_group(one.present, pairing.one_signature, pairing.signatures)
        both = many_there & one_there
        lone_many, lone_one = pairing.one < 0, pairing.many < 0
        both[lone_many] = many_there[lone_many] & ~any_one[pairing.many_signature[pairing.many[lone_many]]]
        both[lone_one] = one_there[lone_one] & ~any_many[pairing.one_signature[pairing.one[lone_one]]]
        return both, fills

    @staticmethod
    def _side(block: VectorBlock, rows: I64, fill: float | None) -> Cells:
        values: F64 = block.values
        histograms: Objects | None = block.histograms
        if fill is not None:
            steps = values.shape[1]
            values = np.concatenate((values, np.full((1, steps), fill)))
            if histograms is not None:
                histograms = np.concatenate((histograms, np.full((1, steps), None, object)))
        return Cells(values[rows], None if histograms is None else histograms[rows])

    def _two_on_one_side(self, pairing: Pairing, many: VectorBlock, one: VectorBlock) -> tuple[int, int] | None:
        """The first step at which two series of the one side belong to the same, and the signature of these."""
        if pairing.one_is_unique:
            return None
        counts = count_in_group(one.present, pairing.one_signature, pairing.signatures)
        # Where the other side is empty and nothing is filled in, nobody looks.
        twice = (counts > 1) & (many.present.any(axis=0) | (self._fills() != (None, None)))
        if not twice.any():
            return None
        step = int(np.argmax(twice.any(axis=0)))
        return int(np.argmax(twice[:, step])), step

    def _duplicate(self, pairing: Pairing, one: VectorBlock, group: int, step: int) -> ExecutionError:
        rows: list[int] = np.flatnonzero((pairing.one_signature == group) & one.present[:, step])[:2].tolist()
        side = "left" if self.plan.matching.cardinality is Cardinality.ONE_TO_MANY else "right"
        first, second = sorted(lb.show(one.axis.labels[row]) for row in rows)
        names = frozenset(self.plan.matching.labels)
        shared = lb.show(signature(one.axis.labels[rows[0]], self.plan.matching, names))
        return ExecutionError(
            f"found duplicate series for the match group {shared} on the {side} hand-side of the operation: "
            f"[{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side",
            "name the labels to match on, or aggregate that side",
        )
