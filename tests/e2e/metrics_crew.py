"""A coordinator and three workers that answer PromQL over samples which a test has brought.

Samples are imported in this process, cut into several shards and halves of time, and every query is divided into as
many works as there are shards: an answer that is right was put together rightly.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.importing.importer import Imported, ImportSource, Lake, import_file
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import I64, Objects
from quarterdeck.metrics.promql.memory import Series
from quarterdeck.metrics.promql.result import Result
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores, S3Options
from tests.conformance.json_answers import result_of
from tests.conformance.runner import Refused
from tests.differential.peer import PrometheusClient
from tests.e2e.crew import Coordinator, Crew, Worker

SHARDS: Final = 4
_PARSE_ERROR: Final = 'invalid parameter "query": '


class MetricsCrew:
    """Use it as a context."""

    def __init__(self, folder: Path, workers: int = 3) -> None:
        self._folder = folder
        self._crew = Crew(folder)
        self._workers = workers
        self.coordinator: Coordinator
        self.workers: list[Worker]

    def __enter__(self) -> Self:
        crew = self._crew.__enter__()
        # As few rows in a work as can be: else no query over so few samples would be divided.
        self.coordinator = crew.coordinator(metrics__query_work_rows=1)
        control = self.coordinator.control
        names = [f"w{number}" for number in range(self._workers)]
        self.workers = [crew.worker(name, join=[control], queue_places=32, kinds="leaf") for name in names]
        self.coordinator.wait_for(*self.workers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._crew.__exit__(kind, error, traceback)

    def load(self, tenant: str, series: Sequence[Series]) -> list[Imported]:
        """The samples become segments: first those of the first half of the time, then those of the second."""
        middle_ms = int(np.median(np.concatenate([one.timestamps for one in series]))) if series else 0
        halves = (_cut(series, -(1 << 62), middle_ms), _cut(series, middle_ms, 1 << 62))
        folder = self._folder / "lake"
        with closing(open_database(folder / "catalog.db", (METRICS_SCHEMA,))) as database:
            lake = Lake(database, ObjectStores(S3Options()), str(folder / "segments"))
            return [
                import_file(lake, _source(self._folder, half, f"{tenant} {number}"), tenant, shard_count=SHARDS)
                for number, half in enumerate(halves)
                if half
            ]

    def client(self) -> PrometheusClient:
        """A connection; close it."""
        return PrometheusClient(int(self.coordinator.http.rpartition(":")[2]))


@dataclass(frozen=True, slots=True)
class CrewOracle:
    """Asks for one tenant's samples, over a connection that is not its own."""

    client: PrometheusClient
    tenant: str

    def instant(self, text: str, time_ms: int) -> Result:
        return self._ask("query", query=text, time=_seconds(time_ms))

    def range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        times = {"start": _seconds(start_ms), "end": _seconds(end_ms), "step": _seconds(step_ms)}
        return self._ask("query_range", query=text, **times)

    def _ask(self, endpoint: str, **parameters: str) -> Result:
        reply = self.client.ask(endpoint, parameters, self.tenant)
        if reply["status"] == "success":
            return result_of(reply)
        kind, text = reply["errorType"], str(reply["error"])
        if kind == "bad_data" and text.startswith(_PARSE_ERROR):
            raise Refused(text.removeprefix(_PARSE_ERROR), is_parse_error=True)
        if kind in {"bad_data", "execution"}:
            raise Refused(text, is_parse_error=False)
        raise AssertionError(f"no query of a script is answered with {kind}: {text}")


class _Reader:
    """Reads no file: these series."""

    size_bytes = read_bytes = 0
    metadata: Mapping[str, MetricMetadata] = {}

    def __init__(self, series: Sequence[Series]) -> None:
        self._series = series

    def batches(self) -> Iterator[SampleBatch]:
        counts = [len(one.timestamps) for one in self._series]
        yield SampleBatch(
            tuple(one.labels for one in self._series),
            np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            np.concatenate([one.timestamps for one in self._series]),
            np.concatenate([one.values for one in self._series]),
            np.concatenate([_histograms(one) for one in self._series]),
            np.concatenate([_starts(one) for one in self._series]),
        )


def _histograms(series: Series) -> Objects:
    if series.histograms is not None:
        return series.histograms
    nothing: Objects = np.full(len(series.timestamps), None, dtype=object)
    return nothing


def _starts(series: Series) -> I64:
    return np.zeros(len(series.timestamps), np.int64) if series.starts is None else series.starts


def _source(folder: Path, series: Sequence[Series], name: str) -> ImportSource:
    """Known by its name alone: there is no file."""
    empty = folder / "nothing"
    empty.touch()
    return ImportSource(empty, name, lambda: _Reader(series))


def _cut(series: Iterable[Series], start_ms: int, end_ms: int) -> list[Series]:
    """From one time to before another."""
    found: list[Series] = []
    for one in series:
        low, high = np.searchsorted(one.timestamps, (start_ms, end_ms)).tolist()
        if low < high:
            histograms = None if one.histograms is None else one.histograms[low:high]
            starts = None if one.starts is None else one.starts[low:high]
            found.append(Series(one.labels, one.timestamps[low:high], one.values[low:high], histograms, starts))
    return found


def _seconds(time_ms: int) -> str:
    """With all digits.

    >>> _seconds(-1500), _seconds(60_000)
    ('-1.500', '60.000')
    """
    whole, rest = divmod(abs(time_ms), 1000)
    return f"{'-' if time_ms < 0 else ''}{whole}.{rest:03d}"
