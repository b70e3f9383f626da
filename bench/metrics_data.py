"""What `bench/metrics.py` asks about: counters of many series, as a Parquet file for `quarterdeck import` and as the
stores of Prometheus and VictoriaMetrics.

The samples depend on the number of series alone. What is made once stays in `.tools/bench`, so that the next run starts
at once; a store is made beside its place and moved there whole.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.memory import Series

_arrow: Final = cast("Any", pyarrow)
_parquet: Final = cast("Any", parquet)

CACHE: Final = Path(__file__).parent.parent / ".tools" / "bench"
BASE_MS: Final = 1_700_000_040_000
"""On a minute."""
INTERVAL_MS: Final = 15_000
SAMPLES: Final = 6 * 240
END_MS: Final = BASE_MS + 6 * 3_600_000 - 300_000
"""The latest time asked for; requests that differ move some seconds on from here."""
JOBS: Final = 10
_BLOCK_SERIES: Final = 5_000
_RESETS: Final = 2
_FIRST_VALUE: Final = 10_000_000
_MOST_ADDED: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """Some of the series, as rows; series `first + i` has the times `timestamps[i]` and the values `values[i]`."""

    first: int
    timestamps: I64
    values: F64


def job_of(series: int) -> str:
    return f"job-{series % JOBS}"


def instance_of(series: int) -> str:
    return f"host-{series}:9100"


def counters(count: int) -> Iterator[Counters]:
    """So many counters with six hours at 15 s, each with two resets and a phase of its own.

    Versions 2 and 3 of Prometheus should answer alike. So phases are odd milliseconds: no sample lies on a whole
    second, and so none on a window's edge. Counters begin far from zero, and rates hardly ever tie.
    """
    for first in range(0, count, _BLOCK_SERIES):
        rng = np.random.default_rng(first)
        rows = min(_BLOCK_SERIES, count - first)
        phases = rng.integers(0, INTERVAL_MS - 1, rows) | 1
        timestamps: I64 = BASE_MS + phases[:, None] + np.arange(SAMPLES, dtype=np.int64) * INTERVAL_MS
        values: I64 = _FIRST_VALUE + rng.integers(0, _MOST_ADDED, (rows, SAMPLES)).cumsum(axis=1)
        resets = np.sort(rng.integers(1, SAMPLES, (rows, _RESETS)), axis=1)
        for at in resets.T:
            lost = values[np.arange(rows), at - 1]
            values -= np.where(np.arange(SAMPLES) >= at[:, None], lost[:, None], 0)
        yield Counters(first, timestamps, values.astype(np.float64))


def series_of(count: int) -> list[Series]:
    """The same, one by one, as peers are fed with them."""
    return [
        Series(from_mapping({"__name__": "m", "job": job_of(number), "instance": instance_of(number)}), times, values)
        for block in counters(count)
        for number, times, values in zip(
            range(block.first, block.first + len(block.values)), block.timestamps, block.values, strict=True
        )
    ]


def parquet_file(count: int) -> Path:
    """A file with the columns job, instance, timestamp and value; of each 5,000 series the rows are in the order of
    time, as one who scrapes them would write them down."""

    def write(place: Path) -> None:
        schema = _arrow.schema(
            [
                ("job", _arrow.dictionary(_arrow.int32(), _arrow.string())),
                ("instance", _arrow.dictionary(_arrow.int32(), _arrow.string())),
                ("timestamp", _arrow.int64()),
                ("value", _arrow.float64()),
            ]
        )
        jobs = _arrow.array([f"job-{number}" for number in range(JOBS)])
        with _parquet.ParquetWriter(place, schema) as writer:
            for block in counters(count):
                numbers = range(block.first, block.first + len(block.values))
                instances = _arrow.array([instance_of(number) for number in numbers])
                rows = np.tile(np.arange(len(numbers), dtype=np.int32), SAMPLES)
                columns = [
                    _arrow.DictionaryArray.from_arrays((rows + block.first % JOBS) % JOBS, jobs),
                    _arrow.DictionaryArray.from_arrays(rows, instances),
                    _arrow.array(block.timestamps.T.ravel()),
                    _arrow.array(block.values.T.ravel()),
                ]
                writer.write_table(_arrow.table(columns, schema=schema))

    return kept(count, "samples.parquet", write)


def kept(count: int, name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder of that name for so many series; made when it is not there."""
    place = CACHE / f"metrics-{count}" / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_name(f"{name}.unfinished")
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        make(unfinished)
        unfinished.rename(place)
    return place


def forget(count: int) -> None:
    """Everything that is kept for so many series goes."""
    shutil.rmtree(CACHE / f"metrics-{count}", ignore_errors=True)
