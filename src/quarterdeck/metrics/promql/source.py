"""Where samples come from: a port with one method, and the implementation that holds them in memory."""

from collections.abc import Sequence
from typing import Protocol

from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.syntax.ast import Matcher


class Source(Protocol):
    """Samples that can be selected."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesBlock:
        """The series that match all matchers, with their samples from `start_ms` to `end_ms`, both included.

        Series come sorted by their labels, each whole; staleness markers are among the samples, as floats also where
        a series has histograms (Prometheus stores those as histograms whose sum is the marker). Called from several
        threads.
        """
        ...
