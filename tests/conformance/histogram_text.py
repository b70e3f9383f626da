"""A native histogram as the scripts write it: `{{schema:0 sum:5 count:4 buckets:[1 2 1]}}`.

A series may grow by one. A script that says nothing of the counter reset hint does not expect any; of a series that
grows, what it grows by says it.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quarterdeck.metrics.promql.histograms.arithmetic import add_histograms, subtract_histograms
from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.buckets import run_of
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram

_FIELD: Final = re.compile(r"\s*(?P<name>\w+):(?:\[(?P<list>[^\]]*)\]|(?P<one>[^\s\[\]]+))\s*")
_NUMBERS: Final = frozenset({"schema", "sum", "count", "z_bucket", "z_bucket_w", "offset", "n_offset"})
_LISTS: Final = frozenset({"buckets", "n_buckets", "custom_values"})
_HINT: Final = "counter_reset_hint"


@dataclass(frozen=True, slots=True)
class HistogramText:
    """A histogram, and whether the script says what its hint is."""

    histogram: NativeHistogram
    has_hint: bool = False

    @staticmethod
    def parse(text: str) -> "HistogramText":
        """From what stands between `{{` and `}}`. `ValueError` when that is not understood."""
        numbers: dict[str, float] = {}
        lists: dict[str, tuple[float, ...]] = {}
        hint: ResetHint | None = None
        position = 0
        while position < len(text.rstrip()):
            found = _FIELD.match(text, position)
            if found is None:
                raise ValueError(f"{text[position:]!r} is no field of a histogram: write name:value or name:[values]")
            name, one, items = found["name"], found["one"], found["list"]
            if name in numbers or name in lists or (name == _HINT and hint):
                raise ValueError(f"the field {name!r} of the histogram is there twice")
            if name in _LISTS and items is not None:
                lists[name] = tuple(float(item) for item in items.split())
            elif name in _NUMBERS and one is not None:
                numbers[name] = float(one)
            elif name == _HINT and one is not None:
                hint = ResetHint(one)
            else:
                raise ValueError(
                    f"the histogram's field {name!r} is unknown, or a list where there must be one value or vice versa"
                )
            position = found.end()
        return HistogramText(_made(numbers, lists, hint or ResetHint.UNKNOWN), hint is not None)

    def plus(self, other: "HistogramText", sign: int = 1) -> "HistogramText":
        """With the other added, or with `sign` -1 taken away."""
        operation = add_histograms if sign > 0 else subtract_histograms
        return HistogramText(operation(self.histogram, other.histogram).histogram, self.has_hint)

    def __str__(self) -> str:
        return show_histogram(self.histogram) if self.has_hint else str(self.histogram)


def show_histogram(histogram: NativeHistogram) -> str:
    """With all that may be expected of it."""
    return f"{histogram} schema:{histogram.schema} hint:{histogram.hint}"


def from_classic(buckets: Iterable[tuple[float, float]], count: float | None, total: float | None) -> HistogramText:
    """A histogram with custom bounds from cumulative buckets (`le` and count), as `load_with_nhcb` makes them.

    Without a count, that of the widest bucket counts.
    """
    ordered = sorted(buckets)
    bounds = tuple(bound for bound, _ in ordered if not math.isinf(bound))
    if count is None:
        count = ordered[-1][1] if ordered else 0.0
    upto = [seen for bound, seen in ordered if not math.isinf(bound)] + [count]
    counts = tuple(seen - before for before, seen in zip([0.0, *upto[:-1]], upto, strict=True))
    if min(counts) < 0:
        raise ValueError(f"the buckets of a classic histogram must not fall: they are {upto}")
    histogram = NativeHistogram(
        CUSTOM, count=count, total=total or 0.0, positive=run_of(0, counts), custom_bounds=bounds
    )
    return HistogramText(histogram.compact())


def _made(numbers: dict[str, float], lists: dict[str, tuple[float, ...]], hint: ResetHint) -> NativeHistogram:
    return NativeHistogram(
        int(numbers.get("schema", 0.0)),
        numbers.get("z_bucket_w", 0.0),
        numbers.get("z_bucket", 0.0),
        numbers.get("count", 0.0),
        numbers.get("sum", 0.0),
        run_of(int(numbers.get("offset", 0.0)), lists.get("buckets", ())),
        run_of(int(numbers.get("n_offset", 0.0)), lists.get("n_buckets", ())),
        lists.get("custom_values", ()),
        hint,
    )
