"""What the reader of an answer should know: warnings and infos, in Prometheus' words, with their place in the query.

A note says where it belongs by a position in the text, counted from the beginning of the leaf or query that found it;
who knows the text makes the line and column of it.

As in Prometheus a text is told once however many places it is about, and the last of them is named.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from quarterdeck.core.carets import line_and_column
from quarterdeck.metrics.promql.floats import show_digits, show_short
from quarterdeck.metrics.promql.spans import Span


@dataclass(frozen=True, slots=True)
class Lift:
    """Counts of buckets that had to be lifted, at one step or at several."""

    first_ms: int
    last_ms: int
    lowest: float
    """The bounds of the lowest and the highest bucket that was lifted."""
    highest: float
    biggest: float
    """By how much, at most."""
    times: int = 1

    def with_more(self, other: "Lift") -> "Lift":
        """This and what was found elsewhere, as one."""
        return Lift(
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            max(self.biggest, other.biggest),
            self.times + other.times,
        )

    def __str__(self) -> str:
        return (
            f", from buckets {show_short(self.lowest)} to {show_short(self.highest)}, "
            f"with a max diff of {show_digits(self.biggest, 2)}, "
            f"over {self.times} samples from {_show_time(self.first_ms)} to {_show_time(self.last_ms)}"
        )


@dataclass(frozen=True, slots=True)
class Note:
    """A warning or an info; equal ones are told once."""

    text: str
    position: int
    is_warning: bool
    lift: Lift | None = field(default=None, compare=False)
    """What was lifted, if the note is about that: all that is found about one text is told at once."""

    def after(self, other: "Note | None") -> "Note":
        """What is told if there was another note with the same text: this one, or the first one with all the lifts."""
        if other is None or other.lift is None or self.lift is None:
            return self
        return replace(other, lift=other.lift.with_more(self.lift))

    def show(self, query: str) -> str:
        """As a reader sees it.

        >>> Note("quantile value should be between 0 and 1, got 2", 4, True).show("sum(x)")
        'PromQL warning: quantile value should be between 0 and 1, got 2 (1:5)'
        """
        line, column = line_and_column(query, self.position)
        details = "" if self.lift is None else str(self.lift)
        return f"PromQL {'warning' if self.is_warning else 'info'}: {self.text}{details} ({line}:{column})"


MOST: Final = 1000
"""So many notes are kept. More say nothing new, and a query may find one at each of millions of steps."""


class Notes:
    """The notes of one evaluation, in the order in which they came."""

    def __init__(self) -> None:
        self._notes: Final[dict[Note, Note]] = {}

    def warn(self, text: str, span: Span) -> None:
        """Something is probably wrong with the query or its data."""
        self._add(Note(text, span.start, True))

    def inform(self, text: str, span: Span, lift: Lift | None = None) -> None:
        """Something is worth a look."""
        self._add(Note(text, span.start, False, lift))

    def take_back(self, text: str, span: Span) -> None:
        """There is a warning that says more than this one."""
        self._notes.pop(Note(text, span.start, True), None)

    def add(self, notes: Iterable[Note], shift: int = 0) -> None:
        """Notes found elsewhere, with their positions moved by `shift`."""
        for note in notes:
            self._add(replace(note, position=note.position + shift))

    def __iter__(self) -> Iterator[Note]:
        return iter(tuple(self._notes.values()))

    def show(self, query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The warnings and the infos, sorted."""
        told: dict[tuple[bool, str], Note] = {}
        for note in self._notes.values():
            key = (note.is_warning, note.text)
            told[key] = note.after(told.get(key))
        return (
            tuple(sorted(note.show(query) for note in told.values() if note.is_warning)),
            tuple(sorted(note.show(query) for note in told.values() if not note.is_warning)),
        )

    def _add(self, note: Note) -> None:
        if len(self._notes) >= MOST and note not in self._notes:
            note = Note(f"there are more than {MOST} notes, the others are left out", 0, True)
        self._notes[note] = note.after(self._notes.get(note))


def invalid_quantile(value: float) -> str:
    """The quantile is no share of anything."""
    return f"quantile value should be between 0 and 1, got {show_short(value)}"


def invalid_ratio(value: float) -> str:
    """The ratio is out of bounds."""
    return f"ratio value should be between -1 and 1, got {show_short(value)}, capping to {-1 if value < 0 else 1}"


def bad_bucket_label(metric: str, value: str) -> str:
    """A bucket without a bound."""
    return _for_metric(f'bucket label "le" is missing or has a malformed value of "{value}"', metric)


def mixed_classic_native(metric: str) -> str:
    """A histogram in both forms."""
    return _for_metric("vector contains a mix of classic and native histograms", metric)


def mixed_floats_histograms(metric: str) -> str:
    """A range with both kinds of samples, for a function that needs one kind."""
    return f'encountered a mix of histograms and floats for metric name "{metric}"'


MIXED_IN_AGGREGATION: Final = "encountered a mix of histograms and floats for aggregation"

SORT_OF_RANGE: Final = "sort is ineffective for range queries since results are always ordered by labels"


def possible_non_counter(metric: str) -> str:
    """A rate of something that is not named like a counter."""
    return f'metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "{metric}"'


def forced_monotonicity(metric: str) -> str:
    """Buckets that count less than smaller ones."""
    text = (
        "input to histogram_quantile needed to be fixed for monotonicity "
        "(see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
    )
    return _for_metric(text, metric)


def incompatible_types(lhs: str, op: str, rhs: str) -> str:
    """An operator that is not defined between these kinds of samples."""
    return f'incompatible sample types encountered for binary operator "{op}": {lhs} {op} {rhs}'


def overlapping_start(metric: str) -> str:
    """A sample that counts from before the sample before it on."""
    return f'sample has start time that overlaps with previous sample timestamp for metric "{metric}"'


def ignored_in_aggregation(op: str) -> str:
    """Histograms in an aggregation of floats."""
    return f"ignored histogram in {op} aggregation"


def ignored_in_range(metric: str) -> str:
    """Histograms in a range of floats."""
    return f'ignored histograms in a range containing both floats and histograms for metric name "{metric}"'


def not_a_counter(metric: str) -> str:
    """A rate of histograms that go up and down."""
    return f'this native histogram metric is not a counter: "{metric}"'


def not_a_gauge(metric: str) -> str:
    """A difference of histograms that only grow."""
    return f'this native histogram metric is not a gauge: "{metric}"'


def mixed_buckets(metric: str) -> str:
    """Histograms that have no buckets in common."""
    return f'vector contains a mix of histograms with exponential and custom buckets schemas for metric name "{metric}"'


def reconciled_bounds(operation: str) -> str:
    """Histograms with different custom bounds, put together by the bounds that both have."""
    return f"mismatched custom buckets were reconciled during {operation}"


def conflicting_resets(operation: str) -> str:
    """Histograms put together of which some had a counter reset and others had none."""
    return f"conflicting counter resets during histogram {operation}"


def incompatible_buckets(op: str) -> str:
    """An operator between histograms that have no buckets in common."""
    return f"incompatible bucket layout encountered for binary operator {op}"


def quantile_is_nan(metric: str) -> str:
    """A quantile among observations that are not numbers."""
    return _for_metric("input to histogram_quantile has NaN observations, result is NaN", metric)


def quantile_is_skewed(metric: str) -> str:
    """A quantile below observations that are not numbers."""
    return _for_metric("input to histogram_quantile has NaN observations, result is skewed higher", metric)


def fraction_without_nan(metric: str) -> str:
    """A share of observations some of which are not numbers."""
    text = "input to histogram_fraction has NaN observations, which are excluded from all fractions"
    return _for_metric(text, metric)


def _for_metric(text: str, metric: str) -> str:
    return f'{text} for metric name "{metric}"' if metric else text


def _show_time(time_ms: int) -> str:
    """A time as RFC 3339 writes it, in whole seconds."""
    seconds = abs(time_ms) // 1000 * (-1 if time_ms < 0 else 1)  # towards 1970, as Go divides
    return f"{np.datetime64(seconds, 's')}Z"  # which knows years beyond 9999
