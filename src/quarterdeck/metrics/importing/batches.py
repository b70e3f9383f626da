"""What readers of files hand on: samples in batches, and what a file says about its metrics.

A reader knows files and formats. It does not sort, it does not merge, and it does not know segments: the samples of a
series may come unsorted or twice, and are handed on as they stand in the file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import F64, I64, Objects
from quarterdeck.metrics.promql.labels import Labels

BATCH_SAMPLES: Final = 500_000
"""About as many samples are in a batch: enough that what is done once for each does not count; some 10 MB of arrays."""

MAX_TIMESTAMP_MS: Final = 9_200_000_000_000_000
"""Times lie within this of 1970, before or after: then they fit in 64 bits as microseconds too."""


@dataclass(frozen=True, slots=True, eq=False)
class SampleBatch:
    """Some samples, in the order of their source."""

    labels: tuple[Labels, ...]
    """Distinct within the batch; the metric's name is the label `__name__`."""
    series: NDArray[np.int32]
    """For each sample the place of its series in `labels`."""
    timestamps: I64
    """In milliseconds since 1970."""
    values: F64
    """Where the sample is a histogram: anything."""
    histograms: Objects | None = None
    """For each sample its histogram, or None where it is a float. None: all are floats."""
    starts: I64 | None = None
    """For each sample its start timestamp, in milliseconds since 1970; 0 where it has none. None: no sample has one."""


class SampleReader(Protocol):
    """Reads one file once, from its beginning to its end, with bounded memory. Blocking: it reads and computes."""

    @property
    def size_bytes(self) -> int:
        """Of the file as it is stored, compressed if it is."""
        ...

    @property
    def read_bytes(self) -> int:
        """How many of `size_bytes` have been read so far."""
        ...

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        """By metric; complete when `batches` has ended."""
        ...

    def batches(self) -> Iterator[SampleBatch]:
        """About half a million samples each; a mistake in the file raises `SourceError` when it is reached."""
        ...
