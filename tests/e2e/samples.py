"""Samples to ask about: made from their numbers, imported into a crew's lake, and the truth from the engine alone."""

import json
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from quarterdeck.metrics.api.rendering import render_result
from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.importing.importer import Imported, ImportSource, Lake, import_file
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.labels import Labels, from_mapping
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores
from tests.e2e.crew import Coordinator, Document
from tests.e2e.promql import Ask

FIRST_MS = 1_700_000_000_000
INTERVAL_MS = 15_000


@dataclass(frozen=True)
class Samples:
    """The series of one metric, all with a sample at the same times. Values are whole numbers, so that sums of them
    are the same in whichever order they are made."""

    metric: str
    series: int
    times: int
    interval_ms: int = INTERVAL_MS

    @property
    def end_ms(self) -> int:
        """Of the last sample."""
        return FIRST_MS + (self.times - 1) * self.interval_ms

    @cached_property
    def timestamps(self) -> I64:
        return FIRST_MS + self.interval_ms * np.arange(self.times, dtype=np.int64)

    def labels(self, number: int) -> Labels:
        named = {"__name__": self.metric, "n": f"{number:05}", "job": f"job-{number % 5}", "zone": f"z{number % 3}"}
        return from_mapping(named)

    def values(self, number: int) -> F64:
        """A counter that is reset now and then."""
        steps = np.arange(self.times, dtype=np.int64)
        return ((steps * (number % 7 + 1) * 3 + number * 31) % (1009 + number)).astype(np.float64)

    @cached_property
    def source(self) -> MemorySource:
        return MemorySource.of(
            Series(self.labels(number), self.timestamps, self.values(number)) for number in range(self.series)
        )

    def batch(self) -> SampleBatch:
        return SampleBatch(
            tuple(self.labels(number) for number in range(self.series)),
            np.repeat(np.arange(self.series, dtype=np.int32), self.times),
            np.tile(self.timestamps, self.series),
            np.concatenate([self.values(number) for number in range(self.series)]),
        )

    def ask(self, text: str, step_s: float = 60.0, **more: object) -> Ask:
        """A query over all of it; `$m` in its text is this metric."""
        times = {"start": FIRST_MS / 1000, "end": self.end_ms / 1000, "step": step_s}
        return Ask(text.replace("$m", self.metric), {**times, **more})

    def truth(self, ask: Ask) -> list[Document]:
        """What the engine says that has all samples in its memory, as the API shows it."""
        start_ms, end_ms, step_ms = (round(1000 * float(str(ask.options[name]))) for name in ("start", "end", "step"))
        key = (ask.text, start_ms, end_ms, step_ms)
        if key not in self._truths:
            with Engine(threads=1) as engine:
                result = engine.range([self.source], ask.text, start_ms, end_ms, step_ms)
            self._truths[key] = json.loads(b"".join(render_result(result)))["data"]["result"]
        return self._truths[key]

    @cached_property
    def _truths(self) -> dict[tuple[object, ...], list[Document]]:
        return {}


class _Reader:
    """A `SampleReader` of samples that are no file."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.size_bytes = self.read_bytes = 1
        self.metadata: Mapping[str, MetricMetadata] = {}

    def batches(self) -> Iterator[SampleBatch]:
        yield self._samples.batch()


@dataclass(frozen=True)
class Store:
    """Where a crew's samples are: its catalog and its segments."""

    database_url: str
    lake_url: str
    objects: ObjectStores

    @classmethod
    def of(cls, coordinator: Coordinator) -> "Store":
        """Where it is unless it is told otherwise. It is up already, so the catalog has its tables."""
        folder = coordinator.wait_up().folder.parent / "lake"
        return cls(str(folder / "catalog.db"), str(folder / "segments"), ObjectStores())

    @classmethod
    def at(cls, folder: Path) -> "Store":
        return cls(str(folder / "catalog.db"), str(folder / "segments"), ObjectStores())

    @property
    def catalog(self) -> Path:
        return Path(self.database_url)

    def put(self, samples: Samples, tenant: str, shards: int, folder: Path) -> Imported:
        """Imports them. The same again changes nothing."""
        note = folder / f"{samples.metric}.txt"
        note.write_text(f"{samples} {tenant}")
        source = ImportSource(note, "made for a test", lambda: _Reader(samples))
        with closing(open_database(self.database_url, (METRICS_SCHEMA,))) as database:
            database.upgrade()
            return import_file(Lake(database, self.objects, self.lake_url), source, tenant, shard_count=shards)

    def segments(self, imported: Imported) -> list[Path]:
        """The files of an import, in their order."""
        with self.looked_into() as connection:
            found = connection.execute(
                "SELECT url FROM segments WHERE import_id = ? ORDER BY segment_id", (imported.record.import_id,)
            )
            return [Path(self.lake_url) / place for (place,) in found]

    @contextmanager
    def looked_into(self) -> Generator[sqlite3.Connection]:
        """The catalog, by a connection of its own."""
        with closing(sqlite3.connect(self.catalog, isolation_level=None)) as connection:
            yield connection
