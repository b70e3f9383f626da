"""Histograms of a series as Prometheus' storage gives them back: with other counter reset hints and more empty buckets.

Its storage keeps histograms in chunks and notes a reset by starting a new one. The first of a chunk may or may not
follow a reset, so its hint is unknown; the other ones follow none. Hints of counters that a script loads are forgotten.
All histograms of a chunk have the same buckets: each gets those that only another one has, empty. That can be seen:
where a histogram has buckets on one side only, its zero bucket is taken to end at zero.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.layout import Layout
from quarterdeck.metrics.promql.histograms.native import NativeHistogram


def as_stored(samples: Iterable[NativeHistogram | None]) -> Iterator[NativeHistogram | None]:
    """The samples of a series in order of time; None is one that is no histogram."""
    chunk: list[NativeHistogram] = []
    for sample in samples:
        if chunk and (sample is None or not _goes_on(chunk[-1], sample)):
            yield from _read(chunk)
            chunk = []
        if sample is None:
            yield None
        else:
            chunk.append(sample)
    yield from _read(chunk)


def _goes_on(before: NativeHistogram, sample: NativeHistogram) -> bool:
    """Whether a histogram goes into the chunk of the one before it."""
    kinds = [histogram.hint is ResetHint.GAUGE for histogram in (before, sample)]
    if Layout.of(before) != Layout.of(sample) or kinds[0] != kinds[1]:
        return False
    if sample.hint is ResetHint.GAUGE:
        return True
    return not (
        sample.hint is ResetHint.RESET
        or sample.count < before.count
        or sample.zero_count < before.zero_count
        or _has_fallen(before.positive, sample.positive)
        or _has_fallen(before.negative, sample.negative)
    )


def _has_fallen(before: Buckets, now: Buckets) -> bool:
    counts = dict(now)
    return any(counts.get(index, 0.0) < count for index, count in before)


def _read(chunk: list[NativeHistogram]) -> Iterator[NativeHistogram]:
    positive, negative = (
        {index for buckets in sides for index, _ in buckets}
        for sides in ([one.positive for one in chunk], [one.negative for one in chunk])
    )
    for place, sample in enumerate(chunk):
        hint = ResetHint.NOT_RESET if place else ResetHint.UNKNOWN
        yield replace(
            sample,
            positive=_filled(sample.positive, positive),
            negative=_filled(sample.negative, negative),
            hint=sample.hint if sample.hint is ResetHint.GAUGE else hint,
        )


def _filled(buckets: Buckets, indices: set[int]) -> Buckets:
    counts = dict(buckets)
    return tuple((index, counts.get(index, 0.0)) for index in sorted(indices))
