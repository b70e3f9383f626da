"""Levels and totals that the process knows anyway. They are read at the scrape.

The process gives one function that returns all its figures as of now, so the figures of a scrape belong together. If
the function fails, the scrape lacks these figures and nothing else; the failure is counted and logged.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics.families import Audience, Description, Families, Label, MetricType

if TYPE_CHECKING:
    from prometheus_client import Metric as Exposed

FiguresT = TypeVar("FiguresT")
LabelT = TypeVar("LabelT", bound=StrEnum)

_log = get_logger(__name__)

MOST_VALUES: Final = 1000
"""For a label whose values come and go. More of them in a scrape would block the event loop, and fill the store of
whoever scrapes."""


@dataclass(frozen=True, slots=True)
class _Reading(Generic[FiguresT]):
    description: Description
    read: Callable[[FiguresT], Mapping[tuple[str, ...], float]]
    """The numbers, by the values of the label; without a label there is one, under ()."""


class Readings(Generic[FiguresT]):
    """The metrics that are read from figures; a collector of prometheus-client's."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self._readings: list[_Reading[FiguresT]] = []
        self._source: Callable[[], FiguresT] | None = None
        self._failures = families.figures_failed

    def level(self, name: str, meaning: str, audience: Audience, read: Callable[[FiguresT], float]) -> None:
        """A gauge."""
        self._readings.append(
            _Reading(
                self._families.describe(name, MetricType.GAUGE, meaning, audience), lambda figures: {(): read(figures)}
            )
        )

    def level_by(
        self,
        name: str,
        meaning: str,
        audience: Audience,
        by: Label[LabelT],
        read: Callable[[FiguresT], Mapping[LabelT, float]],
    ) -> None:
        """A gauge for each value of a label. A value that is not among the figures is at zero."""
        description = self._families.describe(name, MetricType.GAUGE, meaning, audience, (by,))
        self._readings.append(_Reading(description, _by(by, read)))

    def total(self, name: str, meaning: str, audience: Audience, read: Callable[[FiguresT], float]) -> None:
        """A counter that the process keeps itself."""
        self._readings.append(
            _Reading(
                self._families.describe(name, MetricType.COUNTER, meaning, audience),
                lambda figures: {(): read(figures)},
            )
        )

    def total_by(
        self,
        name: str,
        meaning: str,
        audience: Audience,
        by: Label[LabelT],
        read: Callable[[FiguresT], Mapping[LabelT, float]],
    ) -> None:
        """A counter for each value of a label, kept by the process itself."""
        description = self._families.describe(name, MetricType.COUNTER, meaning, audience, (by,))
        self._readings.append(_Reading(description, _by(by, read)))

    def level_of_each(
        self, name: str, meaning: str, audience: Audience, by: str, read: Callable[[FiguresT], Mapping[str, float]]
    ) -> None:
        """A gauge for each value of a label whose values come and go, such as the nodes of a cluster. Only those are
        there that are among the figures, and of very many those with the largest numbers."""
        description = self._families.describe(name, MetricType.GAUGE, meaning, audience, (Label(by, ()),))
        self._readings.append(_Reading(description, _of_each(read)))

    def total_of_each(
        self, name: str, meaning: str, audience: Audience, by: str, read: Callable[[FiguresT], Mapping[str, float]]
    ) -> None:
        """A counter for each value of such a label, kept by the process itself. A value that has gone and comes again
        begins at zero."""
        description = self._families.describe(name, MetricType.COUNTER, meaning, audience, (Label(by, ()),))
        self._readings.append(_Reading(description, _of_each(read)))

    def register(self) -> None:
        """To be called when all are declared."""
        self._families.registry.register(self)

    def read_from(self, source: Callable[[], FiguresT]) -> None:
        """From now on figures come from here. Before that a scrape has none."""
        self._source = source

    def describe(self) -> list["Exposed"]:
        return [reading.description.exposed() for reading in self._readings]

    def collect(self) -> list["Exposed"]:
        if self._source is None:
            return []
        try:
            figures = self._source()
            return list(self._exposed(figures))
        except Exception:  # noqa: BLE001 - whatever the process does wrong, the rest of the scrape is worth having
            self._failures.inc()
            _log.exception("figures could not be read")
            return []

    def _exposed(self, figures: FiguresT) -> Iterator["Exposed"]:
        for reading in self._readings:
            exposed = reading.description.exposed()
            names = [label.name for label in reading.description.labels]
            suffix = "_total" if reading.description.type is MetricType.COUNTER else ""
            for values, number in reading.read(figures).items():
                exposed.add_sample(f"{exposed.name}{suffix}", dict(zip(names, values, strict=True)), number)
            yield exposed


def _by(
    by: Label[LabelT], read: Callable[[FiguresT], Mapping[LabelT, float]]
) -> Callable[[FiguresT], Mapping[tuple[str, ...], float]]:
    def numbers(figures: FiguresT) -> Mapping[tuple[str, ...], float]:
        found = read(figures)
        return {(value.value,): found.get(value, 0) for value in by.values}

    return numbers


def _of_each(
    read: Callable[[FiguresT], Mapping[str, float]],
) -> Callable[[FiguresT], Mapping[tuple[str, ...], float]]:
    def numbers(figures: FiguresT) -> Mapping[tuple[str, ...], float]:
        found = read(figures)
        if len(found) > MOST_VALUES:
            found = dict(heapq.nlargest(MOST_VALUES, found.items(), key=lambda entry: entry[1]))
        return {(value,): number for value, number in found.items()}

    return numbers
