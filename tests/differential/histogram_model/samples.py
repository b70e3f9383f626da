"""What the model evaluates: samples in series, values with labels, and the notes that an answer comes with."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tests.differential.histogram_model.arithmetic import is_reset
from tests.differential.histogram_model.histogram import NOT_RESET, RESET, UNKNOWN, Histogram

Value: TypeAlias = float | Histogram
Labels: TypeAlias = tuple[tuple[str, str], ...]
NAME = "__name__"


@dataclass(frozen=True)
class Point:
    """A value at a time. None: the series has ended here."""

    time_ms: int
    value: Value | None


@dataclass(frozen=True)
class Row:
    """A value with its labels, at one step."""

    labels: Labels
    value: Value
    time_ms: int
    nameless: bool = False
    """The name goes away at the end; until then it says in notes of which metric they speak."""

    @property
    def metric(self) -> str:
        """The metric's name, also one that goes away."""
        return dict(self.labels).get(NAME, "")

    @property
    def key(self) -> Labels:
        """All labels but the name."""
        return tuple(pair for pair in self.labels if pair[0] != NAME)

    def with_value(self, value: Value, nameless: bool = True) -> "Row":
        """Another value; the name goes unless it is said to stay."""
        return replace(self, value=value, nameless=self.nameless or nameless)


@dataclass
class Notes:
    """Warnings and infos. Some depend on the order of series, which nobody promises: these may be there or not."""

    certain: set[str] = field(default_factory=set[str])
    possible: set[str] = field(default_factory=set[str])
    order_counts: bool = False
    """A value depends on the order of series, too."""

    def warn(self, text: str) -> None:
        """Something is probably wrong."""
        self.certain.add(f"warning: {text}")

    def inform(self, text: str) -> None:
        """Something is worth a look."""
        self.certain.add(f"info: {text}")

    def perhaps(self, *texts: str) -> None:
        """Whole notes, with `warning: ` or `info: `."""
        self.possible.update(texts)


@dataclass(frozen=True)
class Times:
    """The steps of a query."""

    start_ms: int
    end_ms: int
    step_ms: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start_ms, self.end_ms + 1, self.step_ms))


@dataclass(frozen=True)
class Wanted:
    """What a label must be, or not be."""

    label: str
    value: str
    is_pattern: bool = False
    is_not: bool = False

    def fits(self, value: str) -> bool:
        """Whether a series with this value is wanted."""
        found = re.fullmatch(self.value, value) is not None if self.is_pattern else self.value == value
        return found != self.is_not

    def __str__(self) -> str:
        op = ("!" if self.is_not else "=") + ("~" if self.is_pattern else "=" if self.is_not else "")
        return f'{self.label}{op}"{self.value}"'


@dataclass(frozen=True)
class World:
    """All series, and the steps for which somebody asks: a selector that finds out about resets begins at the first."""

    series: dict[Labels, tuple[Point, ...]]
    times: Times
    lookback_ms: int = 300_000

    def matching(self, wanted: "tuple[Wanted, ...]") -> Iterator[tuple[Labels, tuple[Point, ...]]]:
        """The series that are wanted, sorted."""
        for labels in sorted(self.series):
            if all(one.fits(dict(labels).get(one.label, "")) for one in wanted):
                yield labels, self.series[labels]


@dataclass
class Evaluation:
    """One query at one step."""

    world: World
    notes: Notes
    finds_resets: bool = False
    """Only counts and sums are asked for: histograms come without buckets, and say whether they were reset."""
    vetoed: bool = False
    """Something above needs whole histograms, so nothing below is told that counts and sums are enough."""

    def among(self, points: tuple[Point, ...], first_ms: int, last_ms: int, from_ms: int) -> list[Point]:
        """The points of a stretch, both ends included; `from_ms` is where reading began at the first step."""
        read = [point for point in points if from_ms <= point.time_ms <= last_ms]
        if self.finds_resets:
            read = list(_bare(read))
        return [point for point in read if first_ms <= point.time_ms]


def _bare(points: list[Point]) -> Iterator[Point]:
    before: Histogram | None = None
    for point in points:
        if not isinstance(point.value, Histogram):
            yield point
            continue
        whole = point.value
        hint = whole.hint
        if hint == UNKNOWN and before is not None:
            hint = RESET if is_reset(whole, before) else NOT_RESET
        before = whole
        yield Point(point.time_ms, Histogram(whole.schema, count=whole.count, sum=whole.sum, hint=hint))


def same_float(one: float, other: float) -> bool:
    """Whether two floats are one for `changes`."""
    return one == other or (math.isnan(one) and math.isnan(other))
