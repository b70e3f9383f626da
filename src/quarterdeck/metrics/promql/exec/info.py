"""`info`: series with the data labels of the info series that belong to them.

An info series belongs to the series with the same instance and job. Its value says nothing; what counts is when its
newest sample was: of several the newest one wins, step by step. So a series may go on under other labels where its
info series is replaced, and becomes several rows.

Which belong together is decided once for a pair of axes. Steps are never walked one by one: for each place (instance
and job) the stretches with the same winners are found at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Bool, Grid, VectorBlock
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import Context, ExecNode, vector
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.unite import unite
from quarterdeck.metrics.promql.labels import IDENTIFYING, METRIC_NAME, Labels
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.matchers import accepts

NOBODY: Final = -1
"""Stands where a row of an info series would."""


class SameInfo(NamedTuple):
    """Series that have the same info series."""

    rows: I64
    """The series."""
    candidates: tuple[I64, ...]
    """For each info metric the rows of the info series among which the newest wins, in the order of their labels."""


@dataclass(frozen=True, eq=False)
class Link:
    """Which info series belong to which series."""

    axes: tuple[Axis, Axis]
    """Of the series and of the info series."""
    places: tuple[SameInfo, ...]
    strays: tuple[I64, ...]
    """Candidates at places where there is no series. Prometheus looks for duplicates among them too."""
    read: I64
    """All info series that count."""


class Stretch(NamedTuple):
    """Some series of a place at the steps at which the same info series win."""

    rows: I64
    winners: tuple[int, ...]
    """Of the metrics that have a winner; none where no info series is there."""
    steps: Bool


@dataclass
class InfoNode:
    """Series with the labels of their info series added."""

    plan: pn.Info
    operand: ExecNode
    series: ExecNode
    """The info series: for each the time of its newest sample, and a histogram where that sample is one."""
    context: Context
    known: Remembered[Link] = field(default_factory=Remembered[Link])
    axes: dict[object, tuple[I64, Axis]] = field(default_factory=dict[object, tuple[I64, Axis]])
    """By what the result is made of: its order and its axis, so that a stretch like the one before has the same."""
    axes_bytes: int = 0
    """What these take."""

    def eval(self, grid: Grid) -> VectorBlock:
        base, infos = vector(self.operand, grid), vector(self.series, grid)
        link = self.known.of((base.axis, infos.axis), lambda: self._link(base.axis, infos.axis))
        stretches = tuple(self._stretches(link, base, infos))
        return self._result(link, base, stretches)

    def _link(self, base: Axis, infos: Axis) -> Link:
        """Info series count if for each identifying label that any series has, some series has their value."""
        self.axes.clear()
        self.context.memory.hold(-self.axes_bytes)
        self.axes_bytes = 0
        enriched = [row for row, labels in enumerate(base.labels) if not self._is_source(labels)]
        wanted: dict[str, set[str]] = {}
        for row in enriched:
            for name, value in lb.keep(base.labels[row], IDENTIFYING):
                wanted.setdefault(name, set()).add(value)
        candidates: dict[Labels, dict[str, list[int]]] = {}
        for row, labels in enumerate(infos.labels if wanted else ()):
            if all(lb.get(labels, name) in values for name, values in wanted.items()):
                metrics = candidates.setdefault(lb.keep(labels, IDENTIFYING), {})
                metrics.setdefault(lb.get(labels, METRIC_NAME), []).append(row)
        found = {place: tuple(_rows(rows) for rows in metrics.values()) for place, metrics in candidates.items()}
        members: dict[Labels, list[int]] = {}
        for row in enriched:
            members.setdefault(lb.keep(base.labels[row], IDENTIFYING), []).append(row)
        return Link(
            (base, infos),
            tuple(SameInfo(_rows(rows), found.get(place, ())) for place, rows in members.items()),
            tuple(rows for place, metrics in found.items() if place not in members for rows in metrics),
            _rows([row for metrics in found.values() for rows in metrics for row in rows.tolist()]),
        )

    def _is_source(self, labels: Labels) -> bool:
        """Whether a series is one of the info series asked for, which stay as they are."""
        name = lb.get(labels, METRIC_NAME)
        return all(accepts(matcher, name) for matcher in self.plan.sources)

    def _stretches(self, link: Link, base: VectorBlock, infos: VectorBlock) -> Iterator[Stretch]:
        asked: Bool = np.logical_or.reduce(base.present, axis=0)
        if (infos.is_histogram[link.read] & asked).any():
            raise ExecutionError("info sample should be float", "ask for another info metric")
        for rows in link.strays:
            _newest(infos, rows, asked)
        for place in link.places:
            winners = np.array([_newest(infos, rows, asked) for rows in place.candidates], np.int64)
            for chosen, steps in _alike(winners.reshape(len(place.candidates), len(asked))):
                there = (base.present[place.rows] & steps).any(axis=1)
                if there.any() and (chosen or not self.plan.required):
                    yield Stretch(place.rows[there], chosen, steps)
        sources = np.setdiff1d(np.arange(len(base.axis)), np.concatenate([_rows([]), *(p.rows for p in link.places)]))
        yield Stretch(sources, (), np.ones(len(asked), np.bool_))

    def _result(self, link: Link, base: VectorBlock, stretches: Sequence[Stretch]) -> VectorBlock:
        rows = np.concatenate([stretch.rows for stretch in stretches])
        lengths = [len(stretch.rows) for stretch in stretches]
        steps = base.present.shape[1]
        self.context.memory.need(len(rows) * steps * 19)
        key = (rows.tobytes(), tuple((len(s.rows), s.winners) for s in stretches))
        if key not in self.axes:
            self.axes[key] = self._axis(link, stretches)
        order, axis = self.axes[key]
        masks = np.repeat(np.array([stretch.steps for stretch in stretches]), lengths, axis=0)[order]
        rows = rows[order]
        return unite(
            VectorBlock(
                axis,
                base.values[rows],
                base.present[rows] & masks,
                None if base.histograms is None else base.histograms[rows],
            ),
            self.context,
        )

    def _axis(self, link: Link, stretches: Sequence[Stretch]) -> tuple[I64, Axis]:
        """The order of the rows by their labels, and their axis in that order."""
        base, infos = link.axes
        size_bytes = sum(len(stretch.rows) for stretch in stretches) * (base.row_bytes + infos.row_bytes)
        self.context.memory.hold(size_bytes)
        self.axes_bytes += size_bytes
        labels: list[Labels] = []
        for stretch in stretches:
            winners = [infos.labels[row] for row in stretch.winners]
            chosen: list[int] = stretch.rows.tolist()
            labels += [enriched(base.labels[row], winners, self.plan.data) for row in chosen]
        order = _rows(sorted(range(len(labels)), key=labels.__getitem__))
        nameless = base.nameless[np.concatenate([stretch.rows for stretch in stretches])]
        return order, Axis(tuple(labels), nameless).take(order)


def enriched(labels: Labels, infos: Sequence[Labels], data: Sequence[str]) -> Labels:
    """Labels with those of some info series added; `data` names the ones to add, none stands for all.

    >>> enriched((("job", "a"),), [(("__name__", "i"), ("job", "a"), ("os", "hurd"), ("v", "2"))], ["os"])
    (('job', 'a'), ('os', 'hurd'))
    """
    own = {name for name, _ in labels}
    added: dict[str, str] = {}
    for info in infos:
        for name, value in info:
            if name == METRIC_NAME or name in own or (data and name not in data):
                continue
            if added.setdefault(name, value) != value:
                raise ExecutionError(f"conflicting label: {name}", "ask for one info metric, or for other labels of it")
    return lb.replace(labels, added.items())


def _rows(rows: Sequence[int]) -> I64:
    return np.array(rows, np.int64)


def _newest(infos: VectorBlock, rows: I64, asked: Bool) -> I64:
    """For each step that is asked for the info series with the newest sample, or nobody.

    Two that are equally new are an error if none before them, in the order of labels, is newer: as in Prometheus.
    """
    winner = np.full(len(asked), NOBODY, np.int64)
    newest: F64 = np.full(len(asked), -np.inf)
    candidates: list[int] = rows.tolist()
    for row in candidates:
        times = infos.values[row]
        there = infos.present[row] & asked
        if (same := there & (times == newest)).any():
            step = int(same.argmax())
            time_ms = round(float(times[step]) * 1000)
            old, new = (lb.show(infos.axis.labels[one]) for one in (int(winner[step]), row))
            raise ExecutionError(
                f"found duplicate series for info metric: existing {old} @ {time_ms}, new {new} @ {time_ms}",
                "have one info series for each instance and job, or choose one by its labels",
            )
        newer = there & (times > newest)
        winner[newer] = row
        newest[newer] = times[newer]
    return winner


def _alike(winners: I64) -> Iterator[tuple[tuple[int, ...], Bool]]:
    """The steps (columns) that have the same winners, and these without nobody."""
    if (winners == winners[:, :1]).all():
        # The usual case, and finding out what is unique takes ten times as long.
        yield tuple(row for row in winners[:, 0].tolist() if row != NOBODY), np.ones(winners.shape[1], np.bool_)
        return
    found, which = np.unique(winners, axis=1, return_inverse=True)
    columns: list[list[int]] = found.T.tolist()
    for index, column in enumerate(columns):
        yield tuple(row for row in column if row != NOBODY), which.reshape(-1) == index
