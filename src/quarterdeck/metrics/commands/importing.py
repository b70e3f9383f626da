"""`quarterdeck import`: metrics from files into the lake of a crew, with a progress bar.

It writes segments into the lake and tells the catalog at the end; `lake_target` says whose lake that is.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.catalog import ImportRecord, list_imports
from quarterdeck.metrics.commands.choices import MetricsFormat, TimestampUnit
from quarterdeck.metrics.commands.import_inputs import Input, check_names, inputs_of, opened
from quarterdeck.metrics.commands.lake_target import LakeTarget, TargetOrder, find_target
from quarterdeck.metrics.importing import importer
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.column_mapping import ColumnMapping, TimeUnit
from quarterdeck.metrics.importing.created import CreatedReader
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.importing.parquet import ParquetReader
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database, place_of
from quarterdeck.terminal.short_numbers import shown_size
from quarterdeck.terminal.shown_times import shown_span, shown_time
from quarterdeck.terminal.telling import counted, printable, tell
from quarterdeck.terminal.times import now_s, parse_time_s

_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class ImportOrder:
    """What somebody asked for."""

    names: Sequence[str]
    """Files, `-` for standard input, objects in a bucket."""
    format: MetricsFormat | None
    mapping: ColumnMapping
    tenant: str
    shards: int | None
    again: bool
    target: TargetOrder
    at: str | None = None
    """The time of samples that have none."""
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
    """Imports one after the other. One that fails is told, and the others are imported all the same; a name that does
    not say what it is, or an option that does not go with it, stops all of them before the first."""
    at_ms = None if order.at is None else round(parse_time_s("--at", order.at, now_s()) * _MS)
    check_names(order.names, order.format)
    target = find_target(order.target)
    inputs = inputs_of(order.names, order.format, target.objects)
    for each in inputs:
        if each.form is not None:
            _check_options(each.name, each.form, order)
    sys.stderr.write(f"importing into {target.told}\n")
    console = Console(stderr=True)
    code = 0
    with opened_lake(target) as lake:
        for each in inputs:
            try:
                sys.stdout.write(_told(each.name, _import(lake, target, each, order, at_ms, console)) + "\n")
            except QuarterdeckError as error:
                code = tell(error)
    sys.stdout.write(f"lake: {target.told}\n")
    return code


@contextmanager
def opened_lake(target: LakeTarget) -> Generator[importer.Lake]:
    """Closed at the end of the block."""
    with closing(open_database(target.database_url, (METRICS_SCHEMA,))) as database:
        database.upgrade()
        yield importer.Lake(database, target.objects(), target.lake_url, target.orphan_grace_s)


def show(order: ImportOrder) -> int:
    """What was imported, the latest last."""
    target = find_target(order.target)
    catalog = place_of(target.database_url).file
    records: Sequence[ImportRecord] = ()
    if catalog is None or not _is_missing(catalog):
        with opened_lake(target) as lake:
            records = lake.database.read(lambda connection: list_imports(connection, order.tenant))
    sys.stdout.write(f"lake: {target.told}\n")
    if not records:
        sys.stdout.write(f"nothing was imported for {printable(order.tenant)}\n")
    for record in records:
        at = shown_time(record.imported_at_ms // _MS * _MS)
        sys.stdout.write(f"{at}  {printable(record.source)}: {_counts(record)}{_times(record)}\n")
    return 0


def _is_missing(catalog: Path) -> bool:
    """Who asks what is in it makes none. One that cannot be looked at is told of by whoever opens it."""
    try:
        catalog.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _import(
    lake: importer.Lake, target: LakeTarget, wanted: Input, order: ImportOrder, at_ms: int | None, console: Console
) -> importer.Imported:
    label = printable(wanted.name.rpartition("/")[2])
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
        task = bar.add_task(label, total=None, samples=0)

        def copied(size_bytes: int) -> None:
            known = None if wanted.object is None else wanted.object.size_bytes
            bar.update(task, description=f"copying {label}", total=known, completed=size_bytes)

        def show(progress: importer.Progress) -> None:
            bar.update(
                task,
                description=f"{progress.step} {label}",
                total=progress.size_bytes,
                completed=progress.read_bytes,
                samples=progress.samples,
            )

        with opened(wanted, target.objects, copied) as (path, form):
            source = _source(wanted, path, form, order, at_ms)
            return importer.import_file(
                lake, source, order.tenant, shard_count=order.shards, again=order.again, on_progress=show
            )


def _told(name: str, imported: importer.Imported) -> str:
    record = imported.record
    name = printable(name)
    if imported.was_there:
        samples = counted(record.sample_count, "sample")
        return f"{name}: was imported before, with {samples}{_times(record)}; nothing to do"
    segments = counted(imported.segments, "segment")
    told = f"{name}: {_counts(record)} in {segments}, {shown_size(imported.size_bytes)}{_times(record)}"
    if imported.duplicates:
        same = counted(imported.duplicates, "sample")
        told += f"; {same} left out for a later one of the same series and time"
    return told


def _counts(record: ImportRecord) -> str:
    return f"{counted(record.sample_count, 'sample')} of {counted(record.series_count, 'series', 'series')}"


def _times(record: ImportRecord) -> str:
    span = shown_span(record.first_ms, record.last_ms)
    return f", {span}" if span else ""


def _check_options(name: str, form: MetricsFormat, order: ImportOrder) -> None:
    if order.at is not None and form is MetricsFormat.PARQUET:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{name} was not imported",
            "--at is for text, and in Parquet a column has the time of each sample",
            "leave --at out, and name the column with --timestamp-column",
        )
    if order.created and form is not MetricsFormat.OPENMETRICS:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{name} was not imported",
            f"only OpenMetrics has lines for --created-timestamps, and this is {form}",
            "leave the option out; of Parquet, name the column with --start-timestamp-column",
        )


def _source(
    wanted: Input, path: Path, form: MetricsFormat, order: ImportOrder, at_ms: int | None
) -> importer.ImportSource:
    _check_options(wanted.name, form, order)
    name = wanted.name
    open_metrics = CreatedReader if order.created else OpenMetricsReader
    readers: dict[MetricsFormat, Callable[[], SampleReader]] = {
        MetricsFormat.OPENMETRICS: lambda: open_metrics(path, name=name, at_ms=at_ms),
        MetricsFormat.PROMETHEUS: lambda: PrometheusTextReader(path, name=name, at_ms=at_ms),
        MetricsFormat.PARQUET: lambda: ParquetReader(path, order.mapping, name=name),
    }
    options = f"{form} {order.mapping.text}" if form is MetricsFormat.PARQUET else form.value
    if order.created:
        options += " with created timestamps"
    return importer.ImportSource(path, options if at_ms is None else f"{options} at {at_ms}", readers[form], name)
