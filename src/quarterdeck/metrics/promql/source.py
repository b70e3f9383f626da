"""Where samples come from: a port with one method, and the implementation that holds them in memory."""

from collections.abc import Callable, Sequence
from typing import Protocol

from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.syntax.ast import Matcher


def unlimited(size_bytes: int) -> None:
    """For a caller with memory to spare."""


class Source(Protocol):
    """Samples that can be selected."""

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        """The series that match all matchers, with their samples from `start_ms` to `end_ms`, both included.

        Series come sorted by their labels, each whole; staleness markers are among the samples, as floats also where
        a series has histograms (Prometheus stores those as histograms whose sum is the marker). Called from several
        threads. `need` is told how many bytes they are before they are read, and raises if that is too much; it is
        called with 0 now and then meanwhile, and raises if nobody waits for the samples any more.
        """
        ...
