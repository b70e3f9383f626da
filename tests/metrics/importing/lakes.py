"""A lake to import into, and what is in it afterwards."""

import asyncio
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.importing.importer import ImportSource, Lake
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.segments.file import SegmentFile
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import OpenSegment, SegmentSource
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores
from tests.metrics.segments.stored import told

Row = tuple[Labels, int, float]


def batch(rows: Sequence[Row], histograms: Sequence[object] | None = None) -> SampleBatch:
    """These samples, in this order."""
    labels = tuple(dict.fromkeys(one for one, _, _ in rows))
    places = {one: place for place, one in enumerate(labels)}
    found: Any = None
    if histograms is not None:
        found = np.full(len(rows), None, object)
        found[:] = histograms
    return SampleBatch(
        labels,
        np.array([places[one] for one, _, _ in rows], np.int32),
        np.array([time for _, time, _ in rows], np.int64),
        np.array([value for _, _, value in rows], np.float64),
        found,
    )


@dataclass
class Played:
    """A reader of a file that a test makes up; it may break in the middle."""

    parts: Sequence[SampleBatch]
    breaks: Exception | None = None
    metadata: Mapping[str, MetricMetadata] = field(default_factory=dict[str, MetricMetadata])
    size_bytes: int = 100
    read_bytes: int = 0

    def batches(self) -> Iterator[SampleBatch]:
        for part in self.parts:
            self.read_bytes += 1
            yield part
        if self.breaks is not None:
            raise self.breaks


def played(folder: Path, *parts: SampleBatch, breaks: Exception | None = None, content: str = "x") -> ImportSource:
    """A source whose file has this content, and whose reader says something else."""
    path = folder / "played.om"
    path.write_text(content)
    return ImportSource(path, "played", lambda: Played(parts, breaks))


@contextmanager
def lake_in(folder: Path) -> Generator[Lake]:
    with closing(open_database(folder / "lake" / "catalog.db", (METRICS_SCHEMA,))) as database:
        database.upgrade()
        yield Lake(database, ObjectStores(), str(folder / "lake" / "segments"))


def universe_of(lake: Lake, tenant: str = "default") -> Universe:
    return asyncio.run(Catalog(InlineDatabase(lake.database), lake.url).universe(tenant))


def stored_in(lake: Lake, tenant: str = "default") -> dict[Labels, list[tuple[int, object]]]:
    """All samples that the catalog leads to."""
    segments = [
        OpenSegment(
            one.segment_id,
            one.min_ts_ms,
            SegmentFile(Path(one.object.url), one.object.url, one.checksum),
            one.shard_count,
        )
        for one in universe_of(lake, tenant).segments
    ]
    return told(SegmentSource(segments, Shelf(0)).select((), -(2**60), 2**60))


def objects_in(folder: Path) -> list[Path]:
    """What people see who look for Parquet files."""
    return sorted((folder / "lake" / "segments").rglob("*.parquet"))


def parts_in(folder: Path) -> list[Path]:
    """What is not published."""
    return sorted((folder / "lake" / "segments").rglob("*.part"))
