"""Queries as trees of plain objects: each knows how it is written and what it answers at a step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from tests.differential.histogram_model.extended import over_extended
from tests.differential.histogram_model.groups import aggregated
from tests.differential.histogram_model.histogram import GAUGE, UNKNOWN, Histogram, over, short
from tests.differential.histogram_model.operators import Matching, Refused, combined, with_number
from tests.differential.histogram_model.samples import NAME, Evaluation, Labels, Point, Row, Times, Value, Wanted
from tests.differential.histogram_model.shares import Share, fraction, quantile, variance
from tests.differential.histogram_model.windows import KEEPING_NAMES, Window, over_window


class NotModelled(Exception):
    """The model has nothing like it."""


class Vector(Protocol):
    """What has rows at each step."""

    def __str__(self) -> str: ...

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        """The rows at a step."""
        ...


@dataclass(frozen=True)
class Select:
    """The newest sample of each series of a metric, not older than the lookback."""

    wanted: tuple[Wanted, ...]
    offset_ms: int = 0
    at_ms: int | None = None

    def __str__(self) -> str:
        return f"{self.series()}{self.when()}"

    def series(self) -> str:
        """Which series are meant."""
        if len(self.wanted) == 1 and str(self.wanted[0]) == f'{NAME}="{self.wanted[0].value}"':
            return self.wanted[0].value
        return "{" + ", ".join(map(str, self.wanted)) + "}"

    def when(self) -> str:
        """What stands after the series, or after the range."""
        return ("" if self.at_ms is None else f" @ {self.at_ms / 1000:.3f}") + _offset(self.offset_ms)

    def looked_at(self, at_ms: int) -> int:
        """The time at which a step looks."""
        return (at_ms if self.at_ms is None else self.at_ms) - self.offset_ms

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        world, last_ms = evaluation.world, self.looked_at(at_ms)
        begins_ms = self.looked_at(world.times.start_ms) - world.lookback_ms + 1
        found: list[Row] = []
        for labels, points in world.matching(self.wanted):
            there = evaluation.among(points, last_ms - world.lookback_ms + 1, last_ms, begins_ms)
            if there and there[-1].value is not None:
                found.append(Row(labels, there[-1].value, there[-1].time_ms))
        return found


@dataclass(frozen=True)
class RangeOf:
    """The samples of a stretch of time before each step."""

    select: Select
    range_ms: int
    extension: str = ""
    """`anchored` or `smoothed`: samples around it count too."""

    def __str__(self) -> str:
        extension = f" {self.extension}" if self.extension else ""
        return f"{self.select.series()}[{self.range_ms}ms]{extension}{self.select.when()}"

    def end(self, at_ms: int) -> int:
        """Where the stretch of a step ends."""
        return self.select.looked_at(at_ms)

    def series(self, at_ms: int, evaluation: Evaluation) -> Iterator[tuple[Row, list[Point]]]:
        """Each series with its samples."""
        before_ms = self.range_ms + (evaluation.world.lookback_ms if self.extension else 0)
        after_ms = evaluation.world.lookback_ms if self.extension == "smoothed" else 0
        last_ms = self.end(at_ms)
        begins_ms = self.end(evaluation.world.times.start_ms) - before_ms + 1
        for labels, points in evaluation.world.matching(self.select.wanted):
            read = tuple(point for point in points if point.value is not None)
            there = evaluation.among(read, last_ms - before_ms + 1, last_ms + after_ms, begins_ms)
            yield Row(labels, 0.0, at_ms), there


@dataclass(frozen=True)
class Subquery:
    """The values of a query at steps of its own, as samples."""

    inner: Vector
    range_ms: int
    step_ms: int
    offset_ms: int = 0

    def __str__(self) -> str:
        return f"({self.inner})[{self.range_ms}ms:{self.step_ms}ms]{_offset(self.offset_ms)}"

    def end(self, at_ms: int) -> int:
        """Where the stretch of a step ends."""
        return at_ms - self.offset_ms

    def series(self, at_ms: int, evaluation: Evaluation) -> Iterator[tuple[Row, list[Point]]]:
        """Each series with its samples. What a histogram said of the one before it is not true of these."""
        last_ms = self.end(at_ms)
        first_ms = (last_ms - self.range_ms) // self.step_ms * self.step_ms + self.step_ms
        world = replace(evaluation.world, times=Times(first_ms, last_ms, self.step_ms))
        inner = replace(evaluation, world=world, finds_resets=False, vetoed=True)
        points: dict[tuple[Labels, bool], list[Point]] = {}
        for time_ms in world.times:
            for row in self.inner.rows(time_ms, inner):
                points.setdefault((row.labels, row.nameless), []).append(Point(time_ms, _unhinted(row.value)))
        for (labels, nameless), there in points.items():
            yield Row(labels, 0.0, at_ms, nameless), there


def _unhinted(value: Value) -> Value:
    return replace(value, hint=UNKNOWN) if isinstance(value, Histogram) and value.hint != GAUGE else value


@dataclass(frozen=True)
class OverTime:
    """A function over windows."""

    function: str
    window: RangeOf | Subquery
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    def __str__(self) -> str:
        shown = [*map(number, self.before), str(self.window), *map(number, self.after)]
        return f"{self.function}({', '.join(shown)})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        found: list[Row] = []
        end_ms = self.window.end(at_ms)
        there = [(row, points) for row, points in self.window.series(at_ms, evaluation) if points]
        if self.function == "absent_over_time":
            return [] if there else [Row((), 1.0, at_ms)]
        for row, points in there:
            parameters = (*self.before, *self.after)
            window = Window(points, end_ms - self.window.range_ms, end_ms, row.metric, parameters, at_ms)
            if self.function == "quantile_over_time" and window.floats:
                _check_quantile(self.before[0], evaluation)
            extension = self.window.extension if isinstance(self.window, RangeOf) else ""
            if extension:
                value = over_extended(self.function, window, extension == "smoothed", evaluation.notes)
            else:
                value = over_window(self.function, window, evaluation.notes)
            if value is not None:
                found.append(row.with_value(value, nameless=self.function not in KEEPING_NAMES))
        return found


@dataclass(frozen=True)
class Mapped:
    """A function of each row by itself."""

    function: str
    vector: Vector
    arguments: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join([str(self.vector), *map(number, self.arguments)])})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        if self.function in {"histogram_count", "histogram_sum", "histogram_avg"} and not evaluation.vetoed:
            evaluation = replace(evaluation, finds_resets=True)
        if self.function in {"histogram_stddev", "histogram_stdvar"}:
            # Prometheus forgets that these need buckets. We do not.
            evaluation = replace(evaluation, finds_resets=False, vetoed=True)
        rows = self.vector.rows(at_ms, evaluation)
        if self.function == "timestamp":
            is_select = isinstance(self.vector, Select)
            return [row.with_value((row.time_ms if is_select else at_ms) / 1000) for row in rows]
        if self.function == "absent":
            return [] if rows else [Row((), 1.0, at_ms)]
        if self.function in {"sort", "sort_desc"}:
            return [row for row in rows if isinstance(row.value, float)]
        if self.function in OF_HISTOGRAMS:
            change = OF_HISTOGRAMS[self.function]
            return [row.with_value(change(row.value)) for row in rows if isinstance(row.value, Histogram)]
        floats = [row for row in rows if isinstance(row.value, float)]
        changed = [(row, self._number(row.value)) for row in floats if isinstance(row.value, float)]
        return [row.with_value(value) for row, value in changed]

    def _number(self, value: float) -> float:
        if math.isnan(value):
            return value
        match self.function:
            case "clamp":
                return max(self.arguments[0], min(self.arguments[1], value))
            case "clamp_min":
                return max(self.arguments[0], value)
            case "clamp_max":
                return min(self.arguments[0], value)
            case function:
                return OF_FLOATS[function](value)


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


OF_HISTOGRAMS: dict[str, Callable[[Histogram], float]] = {
    "histogram_count": lambda histogram: histogram.count,
    "histogram_sum": lambda histogram: histogram.sum,
    "histogram_avg": lambda histogram: over(histogram.sum, histogram.count),
    "histogram_stdvar": variance,
    "histogram_stddev": lambda histogram: _root(variance(histogram)),
}
OF_FLOATS: dict[str, Callable[[float], float]] = {
    "sqrt": _root,
    "abs": abs,
    "ceil": lambda value: float(math.ceil(value)) if math.isfinite(value) else value,
    "floor": lambda value: float(math.floor(value)) if math.isfinite(value) else value,
    "sgn": lambda value: math.copysign(1.0, value) if value else value,
    "round": lambda value: float(math.floor(value + 0.5)) if math.isfinite(value) else value,
}
OTHER_MAPS = ("timestamp", "absent", "sort", "sort_desc")


@dataclass(frozen=True)
class Shares:
    """`histogram_quantile`, `histogram_quantiles` or `histogram_fraction`."""

    function: str
    vector: Vector
    arguments: tuple[float, ...]

    def __str__(self) -> str:
        shown = [number(argument) for argument in self.arguments]
        if self.function == "histogram_quantiles":
            return f'histogram_quantiles({self.vector}, "q", {", ".join(shown)})'
        return f"{self.function}({', '.join([*shown, str(self.vector)])})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        is_fraction = self.function == "histogram_fraction"
        for argument in () if is_fraction else self.arguments:
            _check_quantile(argument, evaluation)
        found: list[Row] = []
        for row in self.vector.rows(at_ms, replace(evaluation, finds_resets=False, vetoed=True)):
            if "le" in dict(row.labels):
                raise NotModelled("classic histograms")
            if not isinstance(row.value, Histogram):
                text = 'bucket label "le" is missing or has a malformed value of ""'
                evaluation.notes.warn(_of_metric(text, row))
            elif is_fraction:
                found.append(self._said(row, fraction(row.value, *self.arguments), evaluation))
            else:
                found += [self._quantile(row, row.value, phi, evaluation) for phi in self.arguments]
        return found

    def _quantile(self, row: Row, histogram: Histogram, phi: float, evaluation: Evaluation) -> Row:
        if self.function == "histogram_quantiles":
            shown = short(phi)
            shown = shown if not math.isfinite(phi) or "." in shown or "e" in shown else f"{shown}.0"
            row = replace(row, labels=tuple(sorted({**dict(row.labels), "q": shown}.items())))
        return self._said(row, quantile(histogram, phi), evaluation)

    def _said(self, row: Row, share: Share, evaluation: Evaluation) -> Row:
        if share.remark:
            function = self.function.removesuffix("s")
            evaluation.notes.inform(_of_metric(f"input to {function} has NaN observations, {share.remark}", row))
        return row.with_value(share.value)


def _of_metric(text: str, row: Row) -> str:
    return f'{text} for metric name "{row.metric}"' if row.metric else text


def _check_quantile(phi: float, evaluation: Evaluation) -> None:
    if not 0 <= phi <= 1:
        evaluation.notes.warn(f"quantile value should be between 0 and 1, got {short(phi)}")


@dataclass(frozen=True)
class Negated:
    """The other sign."""

    vector: Vector

    def __str__(self) -> str:
        return f"-({self.vector})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        rows = self.vector.rows(at_ms, evaluation)
        return [
            row.with_value(row.value.scaled(-1.0) if isinstance(row.value, Histogram) else -row.value) for row in rows
        ]


@dataclass(frozen=True)
class Aggregated:
    """An aggregation."""

    op: str
    vector: Vector
    names: tuple[str, ...] = ()
    without: bool = False
    parameter: float | str | None = None

    def __str__(self) -> str:
        parameter = ""
        if self.parameter is not None:
            shown = f'"{self.parameter}"' if isinstance(self.parameter, str) else number(self.parameter)
            parameter = f"{shown}, "
        return f"{self.op} {'without' if self.without else 'by'} ({', '.join(self.names)}) ({parameter}{self.vector})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        if self.op == "quantile" and isinstance(self.parameter, float):
            _check_quantile(self.parameter, evaluation)
        rows = self.vector.rows(at_ms, evaluation)
        return aggregated(self.op, rows, self.names, self.without, self.parameter, evaluation.notes)


@dataclass(frozen=True)
class Binary:
    """An operator between two vectors."""

    op: str
    left: Vector
    right: Vector
    matching: Matching = field(default_factory=Matching)
    returns_bool: bool = False

    def __str__(self) -> str:
        words = [self.op, "bool" if self.returns_bool else "", str(self.matching)]
        return f"({self.left}) {' '.join(word for word in words if word)} ({self.right})"

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        evaluation = _without_resets(self.op, evaluation)
        left, right = self.left.rows(at_ms, evaluation), self.right.rows(at_ms, evaluation)
        return combined(self.op, left, right, self.matching, self.returns_bool, evaluation.notes)


@dataclass(frozen=True)
class WithNumber:
    """An operator between a vector and a number."""

    op: str
    vector: Vector
    value: float
    is_left: bool = False
    returns_bool: bool = False

    def __str__(self) -> str:
        op = f"{self.op} bool" if self.returns_bool else self.op
        sides = (f"({self.vector})", f"({number(self.value)})" if self.value < 0 else number(self.value))
        return f" {op} ".join(reversed(sides) if self.is_left else sides)

    def rows(self, at_ms: int, evaluation: Evaluation) -> list[Row]:
        evaluation = _without_resets(self.op, evaluation)
        rows = self.vector.rows(at_ms, evaluation)
        return with_number(self.op, rows, self.value, self.is_left, self.returns_bool, evaluation.notes)


def _without_resets(op: str, evaluation: Evaluation) -> Evaluation:
    """What is trimmed needs its buckets."""
    return replace(evaluation, finds_resets=False, vetoed=True) if op in {"</", ">/"} else evaluation


def number(value: float) -> str:
    """A number as a query writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")


def shown(rows: list[Row]) -> list[Row]:
    """The rows of an answer: names that have to go are gone now."""
    found = [replace(row, labels=row.key if row.nameless else row.labels) for row in rows]
    if len({row.labels for row in found}) < len(found):
        raise Refused
    return found


def _offset(offset_ms: int) -> str:
    if not offset_ms:
        return ""
    return f" offset {'-' if offset_ms < 0 else ''}{abs(offset_ms)}ms"
