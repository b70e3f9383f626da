"""What an engine answered, in one form for both engines, and where two answers differ."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.result import Result, Scalar, String, Vector

TOLERANCE: Final = 1e-9
"""Relative. Sums in another order differ by about 1e-15."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The query was refused, or failed."""

    text: str


@dataclass(frozen=True, slots=True)
class Crash:
    """The engine fell over: never right, whatever the other says."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class Table:
    """Samples by series and time in milliseconds; `kind` is the API's resultType."""

    kind: str
    series: dict[Labels, dict[int, float]]

    @property
    def column(self) -> list[float]:
        """The values in the order of the answer."""
        return [value for points in self.series.values() for value in points.values()]


Answer: TypeAlias = Failure | Crash | Text | Table


def told(reply: dict[str, Any]) -> Answer:
    """An answer from its JSON."""
    if reply["status"] != "success":
        return Failure(str(reply.get("error")))
    kind, result = reply["data"]["resultType"], reply["data"]["result"]
    match kind:
        case "string":
            return Text(result[1])
        case "scalar":
            return Table(kind, {(): _points([result])})
        case "vector":
            labels = _labels_of(result)
            return Table(kind, dict(zip(labels, (_points([one["value"]]) for one in result), strict=True)))
        case "matrix":
            labels = _labels_of(result)
            return Table(kind, dict(zip(labels, (_points(one["values"]) for one in result), strict=True)))
        case _:
            raise ValueError(f"the answer is a {kind}")


def _labels_of(result: list[dict[str, Any]]) -> tuple[Labels, ...]:
    labels = tuple(lb.from_mapping(one["metric"]) for one in result)
    _refuse_duplicates(labels)
    return labels


def _points(pairs: list[tuple[float, str]]) -> dict[int, float]:
    return {round(time * 1000): float(value) for time, value in pairs}


def ours(result: Result) -> Answer:
    """Our engine's answer."""
    match result.value:
        case String(value=text):
            return Text(text)
        case Scalar(time_ms=time, value=value):
            return Table("scalar", {(): {time: value}})
        case Vector(time_ms=time, labels=labels, values=values):
            pairs = list(zip(labels, values.tolist(), strict=True))
            _refuse_duplicates(labels)
            return Table("vector", {one: {time: value} for one, value in pairs})
        case SeriesBlock() as block:
            _refuse_duplicates(block.axis.shown)
            return Table("matrix", dict(_stretches(block)))


def _stretches(block: SeriesBlock) -> Iterator[tuple[Labels, dict[int, float]]]:
    for row, labels in enumerate(block.axis.shown):
        stretch = slice(int(block.offsets[row]), int(block.offsets[row + 1]))
        yield labels, dict(zip(block.timestamps[stretch].tolist(), block.values[stretch].tolist(), strict=True))


def _refuse_duplicates(labels: tuple[Labels, ...]) -> None:
    if len(set(labels)) != len(labels):
        raise ValueError(f"a series is twice in the answer: {sorted(labels)}")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers differ. `cells` are the series and times; none when the answers are of different kinds."""

    text: str
    cells: frozenset[tuple[Labels, int]] = frozenset()


def compare(our: Answer, their: Answer) -> Difference | None:
    """How the first answer differs from the second, or None."""
    match our, their:
        case Failure(), Failure():
            return None
        case Text(value=mine), Text(value=other):
            return None if mine == other else Difference(f"{mine!r} is not {other!r}")
        case Table(), Table():
            return _compare_tables(our, their)
        case _:
            return Difference(f"{type(our).__name__.lower()} is not {type(their).__name__.lower()}")


def _compare_tables(our: Table, their: Table) -> Difference | None:
    if our.kind != their.kind and (our.series or their.series):
        return Difference(f"{our.kind} is not {their.kind}")
    cells, lines = set[tuple[Labels, int]](), list[str]()
    for labels in sorted({*our.series, *their.series}):
        mine, other = our.series.get(labels, {}), their.series.get(labels, {})
        for time in sorted({*mine, *other}):
            left, right = mine.get(time), other.get(time)
            if left is not None and right is not None and same(left, right):
                continue
            cells.add((labels, time))
            lines.append(f"{lb.show(labels)} at {time / 1000:.3f}: ours {_shown(left)}, theirs {_shown(right)}")
    if not cells:
        return None
    more = f"\n… and {len(lines) - 8} more" if len(lines) > 8 else ""
    return Difference("\n".join(lines[:8]) + more, frozenset(cells))


def order_differs(our: Answer, their: Answer) -> Difference | None:
    """For answers that have an order: whether the values come in another one. Equal values may change places."""
    if not isinstance(our, Table) or not isinstance(their, Table):
        return None
    mine, other = our.column, their.column
    if len(mine) == len(other) and all(map(same, mine, other)):
        return None
    return Difference(f"the order is another: ours {mine}, theirs {other}")


def same(left: float, right: float) -> bool:
    """Equal within the tolerance; not-a-number equals itself."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or (
        math.isfinite(left) and math.isfinite(right) and math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=0.0)
    )


def _shown(value: float | None) -> str:
    return "none" if value is None else repr(value)
