"""`quarterdeck import`: metrics from files into the lake, with a bar that shows how far it is.

It works by itself, whether a crew is running or not: it writes segments into the lake and tells the catalog at the end.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from quarterdeck.cli.crew_plan import COORDINATOR
from quarterdeck.cli.options import MetricsFormat, TimestampUnit, parse_settings
from quarterdeck.cli.telling import counted, printable, tell
from quarterdeck.config import CoordinatorSettings, load_coordinator
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.catalog import list_imports
from quarterdeck.metrics.importing import importer
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.column_mapping import ColumnMapping, TimeUnit
from quarterdeck.metrics.importing.created import CreatedReader
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.importing.parquet import ParquetReader
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores, S3Options

_MIB: Final = 1024 * 1024
_BY_EXTENSION: Final = {
    ".om": MetricsFormat.OPENMETRICS,
    ".openmetrics": MetricsFormat.OPENMETRICS,
    ".prom": MetricsFormat.PROMETHEUS,
    ".parquet": MetricsFormat.PARQUET,
}
_COMPRESSED: Final = frozenset({".gz", ".zst", ".zstd"})


@dataclass(frozen=True, slots=True)
class ImportOrder:
    """What somebody asked for."""

    files: Sequence[Path]
    format: MetricsFormat | None
    mapping: ColumnMapping
    tenant: str
    shards: int | None
    again: bool
    data_dir: Path | None
    config: Path | None
    settings: Sequence[str] = field(repr=False)
    created: bool = False
    """Whether `_created` lines of OpenMetrics are start timestamps, and not metrics."""


def mapping_of(
    metric_column: str | None,
    metric: str | None,
    timestamp: str,
    timestamp_unit: TimestampUnit,
    value: str,
    labels: Sequence[str],
    labels_column: str | None,
    start: str | None = None,
) -> ColumnMapping:
    """What the options say of a Parquet file's columns; `ValueError` when they contradict each other."""
    named = any(label.partition("=")[0] == METRIC_NAME for label in labels)
    return ColumnMapping(
        metric=metric_column or (None if metric is not None or named else "metric"),
        timestamp=timestamp,
        value=value,
        labels=tuple(labels),
        labels_column=labels_column or (None if labels else "labels"),
        metric_name=metric,
        timestamp_unit=TimeUnit(timestamp_unit.value),
        start=start,
    )


def run(order: ImportOrder) -> int:
    """Imports one file after the other. One that fails is told, and the others are imported all the same; a name that
    does not say what it is stops all of them before the first."""
    sources = [_source(path, order) for path in order.files]
    settings = _settings(order)
    console = Console(stderr=True)
    code = 0
    with closing(open_database(settings.database_url)) as database:
        database.upgrade()
        lake = importer.Lake(
            database,
            ObjectStores(S3Options(**settings.s3.options()), timeout_s=settings.store_timeout_s),
            settings.lake_url,
            settings.orphan_grace_s,
        )
        for source in sources:
            try:
                sys.stdout.write(_told(source.path, _import(lake, source, order, console)) + "\n")
            except QuarterdeckError as error:
                code = tell(error)
    return code


def show(order: ImportOrder) -> int:
    """What was imported, the latest last."""
    with closing(open_database(_settings(order).database_url)) as database:
        database.upgrade()
        records = database.read(lambda connection: list_imports(connection, order.tenant))
    if not records:
        sys.stdout.write(f"nothing was imported for {printable(order.tenant)}\n")
    for record in records:
        at = datetime.fromtimestamp(record.imported_at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        samples, series = counted(record.sample_count, "sample"), counted(record.series_count, "series", "series")
        sys.stdout.write(f"{at}  {printable(record.source)}: {samples} of {series}\n")
    return 0


def _settings(order: ImportOrder) -> CoordinatorSettings:
    place = {} if order.data_dir is None else {"data_dir": order.data_dir / COORDINATOR}
    return load_coordinator(order.config, {**parse_settings(order.settings), **place})


def _import(lake: importer.Lake, source: importer.Source, order: ImportOrder, console: Console) -> importer.Imported:
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[samples]:,} samples"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(source.path.name, total=None, samples=0)

        def show(progress: importer.Progress) -> None:
            bar.update(
                task,
                description=f"{progress.step} {source.path.name}",
                total=progress.size_bytes,
                completed=progress.read_bytes,
                samples=progress.samples,
            )

        return importer.import_file(
            lake, source, order.tenant, shard_count=order.shards, again=order.again, on_progress=show
        )


def _told(path: Path, imported: importer.Imported) -> str:
    record = imported.record
    name = printable(str(path))
    if imported.was_there:
        return f"{name}: was imported before, with {counted(record.sample_count, 'sample')}; nothing to do"
    size = f"{imported.size_bytes / _MIB:,.1f} MiB"
    told = (
        f"{name}: {counted(record.sample_count, 'sample')} of {counted(record.series_count, 'series', 'series')} "
        f"in {counted(imported.segments, 'segment')}, {size}"
    )
    if imported.duplicates:
        same = counted(imported.duplicates, "sample")
        told += f"; {same} left out for a later one of the same series and time"
    return told


def _source(path: Path, order: ImportOrder) -> importer.Source:
    form = order.format or _format_of(path)
    mapping = order.mapping
    if order.created and form is not MetricsFormat.OPENMETRICS:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{path} was not imported",
            f"only OpenMetrics has lines for --created-timestamps, and this is {form}",
            "leave the option out; of Parquet, name the column with --start-timestamp-column",
        )
    opened: dict[MetricsFormat, Callable[[], SampleReader]] = {
        MetricsFormat.OPENMETRICS: lambda: CreatedReader(path) if order.created else OpenMetricsReader(path),
        MetricsFormat.PROMETHEUS: lambda: PrometheusTextReader(path),
        MetricsFormat.PARQUET: lambda: ParquetReader(path, mapping),
    }
    options = f"{form} {mapping.text}" if form is MetricsFormat.PARQUET else form.value
    if order.created:
        options += " with created timestamps"
    return importer.Source(path, options, opened[form])


def _format_of(path: Path) -> MetricsFormat:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    found = _BY_EXTENSION.get(suffixes[-1]) if suffixes else None
    if found is None:
        known = ", ".join(_BY_EXTENSION)
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{path} was not imported",
            f"its name does not end with one of {known}, so that it is not known what it is",
            f"say it with --format: {', '.join(MetricsFormat)}",
        )
    return found
