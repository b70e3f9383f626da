"""Counter reset hints as Prometheus' storage gives them to the histograms of a series.

Its storage keeps histograms in chunks and notes a reset by starting a new one. The first of a chunk may or may not
follow a reset, so its hint is unknown; the other ones follow none. Hints of counters that a script loads are forgotten.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import Layout
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.histograms.resets import is_reset_after


def with_stored_hints(samples: Iterable[NativeHistogram | None]) -> Iterator[NativeHistogram | None]:
    """The samples of a series in order of time; None is one that is no histogram."""
    before: NativeHistogram | None = None
    for sample in samples:
        if sample is None or sample.hint is ResetHint.GAUGE:
            before = None
            yield sample
            continue
        plain = replace(sample, hint=ResetHint.UNKNOWN)
        same_chunk = (
            before is not None
            and sample.hint is not ResetHint.RESET
            and Layout.of(before) == Layout.of(plain)
            and not is_reset_after(plain, before)
        )
        before = plain
        yield replace(plain, hint=ResetHint.NOT_RESET) if same_chunk else plain
