"""Functions of each value by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from quarterdeck.metrics.promql.arithmetic import extreme
from quarterdeck.metrics.promql.blocks import F64, Grid, VectorBlock
from quarterdeck.metrics.promql.exec.node import ExecNode, scalar, vector
from quarterdeck.metrics.promql.histograms import statistics
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.kernels import calendar

Elementwise: TypeAlias = Callable[[F64], F64]

ELEMENTWISE: Final[Mapping[str, Elementwise]] = MappingProxyType(
    {
        "abs": np.abs,
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atan": np.arctan,
        "atanh": np.arctanh,
        "ceil": np.ceil,
        "cos": np.cos,
        "cosh": np.cosh,
        "day_of_month": calendar.day_of_month,
        "day_of_week": calendar.day_of_week,
        "day_of_year": calendar.day_of_year,
        "days_in_month": calendar.days_in_month,
        "deg": lambda values: values * 180 / np.pi,
        "exp": np.exp,
        "floor": np.floor,
        "hour": calendar.hour,
        "ln": np.log,
        "log10": np.log10,
        "log2": np.log2,
        "minute": calendar.minute,
        "month": calendar.month,
        "rad": lambda values: values * np.pi / 180,
        "sgn": lambda values: np.where(values == 0, values, np.sign(values)),  # the sign of -0 is -0
        "sin": np.sin,
        "sinh": np.sinh,
        "sqrt": np.sqrt,
        "tan": np.tan,
        "tanh": np.tanh,
        "year": calendar.year,
    }
)


@dataclass(frozen=True, slots=True)
class MapNode:
    """One of the plain functions; histograms are left out."""

    function: str
    operand: ExecNode

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        with np.errstate(all="ignore"):
            values = ELEMENTWISE[self.function](block.values)
        return VectorBlock(block.axis.without_names, values, block.is_float)


@dataclass(frozen=True, slots=True)
class TimestampNode:
    """The time of the step, where there is a value. (Of a selector it is the sample's: `SelectNode` does that.)"""

    operand: ExecNode

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        times = np.broadcast_to(grid.times() / 1000, block.values.shape).copy()
        return VectorBlock(block.axis.without_names, times, block.present)


@dataclass(frozen=True, slots=True)
class NoStartNode:
    """`start_timestamp` of what is no selector: what was worked out has no start any more, so there is nothing. (Of a
    selector it is the sample's: `SelectNode` does that.)"""

    operand: ExecNode

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        return VectorBlock(block.axis.without_names, block.values, np.zeros(block.present.shape, np.bool_))


@dataclass(frozen=True, slots=True)
class ClampNode:
    """Values kept within bounds; with bounds the wrong way round there are none."""

    operand: ExecNode
    low: ExecNode | None
    high: ExecNode | None

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        low = None if self.low is None else scalar(self.low, grid).values
        high = None if self.high is None else scalar(self.high, grid).values
        values, present = block.values, block.is_float
        if high is not None:
            values = extreme(values, high, largest=False)
        if low is not None:
            values = extreme(values, low, largest=True)
        if low is not None and high is not None:
            present = present & ~(high < low)
        return VectorBlock(block.axis.without_names, values, present)


@dataclass(frozen=True, slots=True)
class RoundNode:
    """Values rounded to a multiple, halves up."""

    operand: ExecNode
    to_nearest: ExecNode | None

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        nearest = np.ones(grid.count) if self.to_nearest is None else scalar(self.to_nearest, grid).values
        with np.errstate(all="ignore"):
            # Multiplying by the inverse is what Prometheus does: 0.1 has no exact double, 10 has.
            inverse = 1.0 / nearest
            values = np.floor(block.values * inverse + 0.5) / inverse
        return VectorBlock(block.axis.without_names, values, block.is_float)


HISTOGRAM_PARTS: Final[Mapping[str, Callable[[NativeHistogram], float]]] = MappingProxyType(
    {
        "histogram_avg": statistics.mean,
        "histogram_count": lambda histogram: histogram.count,
        "histogram_stddev": statistics.deviation,
        "histogram_stdvar": statistics.variance,
        "histogram_sum": lambda histogram: histogram.total,
    }
)


@dataclass(frozen=True, slots=True)
class HistogramPartNode:
    """`histogram_count` and its like, a Python call for each histogram: of floats there is nothing to say."""

    function: str
    operand: ExecNode

    def eval(self, grid: Grid) -> VectorBlock:
        block = vector(self.operand, grid)
        present = block.is_histogram
        values = np.zeros(block.values.shape)
        if block.histograms is not None:
            values[present] = [HISTOGRAM_PARTS[self.function](histogram) for histogram in block.histograms[present]]
        return VectorBlock(block.axis.without_names, values, present)
