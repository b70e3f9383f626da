"""The model in the place of an engine, so that scripts can be run against it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock, is_stale, totals_before
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.memory import Series
from quarterdeck.metrics.promql.result import Result, Value, Vector
from tests.conformance.runner import Refused as ScriptRefused
from tests.differential.histogram_model.bridge import model_histogram, product_histogram
from tests.differential.histogram_model.expressions import shown
from tests.differential.histogram_model.histogram import Histogram
from tests.differential.histogram_model.operators import Refused
from tests.differential.histogram_model.reading import read
from tests.differential.histogram_model.samples import Evaluation, Labels, Notes, Point, Row, Times, World


def world_of(series: Sequence[Series]) -> World:
    """What a script has loaded."""
    found: dict[Labels, tuple[Point, ...]] = {}
    for one in series:
        histograms = [None] * len(one.timestamps) if one.histograms is None else one.histograms.tolist()
        cells = zip(
            one.timestamps.tolist(), one.values.tolist(), is_stale(one.values).tolist(), histograms, strict=True
        )
        found[one.labels] = tuple(
            Point(at, (None if stale else value) if histogram is None else model_histogram(histogram))
            for at, value, stale, histogram in cells
        )
    return World(found, Times(0, 0, 1))


@dataclass(frozen=True)
class ModelOracle:
    """Answers queries by the model. `NotModelled` where it has nothing to say."""

    world: World

    def instant(self, text: str, time_ms: int) -> Result:
        """The answer at one time."""
        rows, notes = self._rows(text, Times(time_ms, time_ms, 1))
        values, histograms = _arrays(rows)
        return _result(Vector(time_ms, tuple(row.labels for row in rows), values, histograms), notes)

    def range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        """The answer at many times."""
        rows, notes = self._rows(text, Times(start_ms, end_ms, step_ms))
        rows.sort(key=lambda row: (row.labels, row.time_ms))
        labels = sorted({row.labels for row in rows})
        counts = np.array([sum(row.labels == one for row in rows) for one in labels], np.int64)
        times = np.array([row.time_ms for row in rows], np.int64)
        return _result(SeriesBlock(Axis.of(labels), totals_before(counts), times, *_arrays(rows)), notes)

    def _rows(self, text: str, times: Times) -> tuple[list[Row], Notes]:
        notes = Notes()
        evaluation = Evaluation(replace(self.world, times=times), notes)
        try:
            query = read(text)
            rows = [replace(row, time_ms=at_ms) for at_ms in times for row in shown(query.rows(at_ms, evaluation))]
        except ParseError as error:
            raise ScriptRefused(error.reason, True) from error
        except Refused as error:
            raise ScriptRefused("the model refuses this", False) from error
        return rows, notes


def _arrays(rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([row.value if isinstance(row.value, float) else 0.0 for row in rows], np.float64)
    histograms = np.full(len(rows), None, object)
    for place, row in enumerate(rows):
        if isinstance(row.value, Histogram):
            histograms[place] = product_histogram(row.value)
    return values, histograms


def _result(value: Value, notes: Notes) -> Result:
    warnings = sorted(f"PromQL {note}" for note in notes.certain if note.startswith("warning"))
    infos = sorted(f"PromQL {note}" for note in notes.certain if note.startswith("info"))
    return Result(value, tuple(warnings), tuple(infos))
