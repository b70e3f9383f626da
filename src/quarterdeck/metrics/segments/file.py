"""`SegmentFile`: a segment on the local disk, read a row group at a time.

The checksum of the whole file is compared with the catalog's when it is first opened, that of each page when it is
read. Nothing is held open between reads; any thread may read.
"""

import os
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import xxhash
from numpy.typing import NDArray
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.histogram_column import from_arrow
from quarterdeck.metrics.promql.blocks import F64, I64, Objects, are_histograms, objects_size_bytes
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, digest
from quarterdeck.metrics.promql.series_index import SeriesIndex
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments.label_text import labels_of
from quarterdeck.metrics.segments.layout import HISTOGRAM, LABELS, METRIC, START, TIMESTAMP, VALUE, sample_columns
from quarterdeck.stores.regular_files import open_regular

_arrow: Final = cast("Any", pyarrow)
_parquet: Final = cast("Any", parquet)
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_REMEMBERED: Final = 8
"""Selectors whose series are remembered for a row group; each takes 8 bytes a series at most."""
CHECKSUM_PREFIX: Final = "xxh3_128:"


class UnreadableSegmentError(QuarterdeckError):
    """A segment is not what the catalog says it is."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            ErrorCode.WORK_FAILED,
            f"segment {url} cannot be read",
            why,
            "restore it from a backup, or import its file with --again; partial=allow answers without it",
        )
        self.args = (url, why)
        self.url: Final = url


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """What the footer says of a row group."""

    number: int
    row_count: int
    metrics: tuple[str, str] | None
    """The first and the last; None where a name is too long for the footer."""
    min_ts_ms: int
    max_ts_ms: int

    def may_have(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> bool:
        """Whether a sample of a series that matches may be in it, between these times."""
        if self.max_ts_ms < start_ms or self.min_ts_ms > end_ms:
            return False
        if self.metrics is None:
            return True
        first, last = self.metrics
        return all(
            first <= matcher.value <= last
            for matcher in matchers
            if matcher.name == METRIC_NAME and matcher.op is MatchOp.EQUAL
        )


@dataclass(frozen=True, eq=False)
class GroupSeries:
    """Which series a row group has, and where."""

    labels: tuple[Labels, ...]
    offsets: I64
    """Series `i` has the rows from `offsets[i]` to before `offsets[i + 1]`."""
    index: SeriesIndex
    chosen: dict[object, I64] = field(default_factory=dict[object, I64])
    """Which series the last few selectors took: dashboards ask the same again and again."""

    def remember(self, selector: Hashable, rows: I64) -> None:
        """For the next query with this selector."""
        if len(self.chosen) >= _REMEMBERED:
            self.chosen.clear()
        self.chosen[selector] = rows

    @cached_property
    def digests(self) -> NDArray[np.uint64]:
        """What decides to which part each series belongs."""
        return np.array([digest(labels) for labels in self.labels], np.uint64)

    @property
    def size_bytes(self) -> int:
        """About what it takes: measured with five labels."""
        return len(self.labels) * 800


@dataclass(frozen=True, slots=True, eq=False)
class GroupSamples:
    """The samples of a row group."""

    timestamps: I64
    values: F64
    histograms: Objects | None
    starts: I64 | None = None
    """As in a `SeriesBlock`."""

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        arrays = self.timestamps.nbytes + self.values.nbytes + (0 if self.starts is None else self.starts.nbytes)
        return arrays if self.histograms is None else arrays + objects_size_bytes(self.histograms)


class SegmentFile:
    """See the module."""

    def __init__(self, path: Path, url: str, checksum: str) -> None:
        """Verifies it, which reads all of it once; raises `UnreadableSegmentError`."""
        self.url: Final = url
        self.path: Final = path
        self.checksum: Final = checksum
        _verify(path, url, checksum)
        with self._readable(), _arrow.OSFile(str(path)) as handle:
            file = _parquet.ParquetFile(handle)
            self._sample_columns: Final = sample_columns(file.schema_arrow)
            self._footer: Final = file.metadata
            self.groups: Final = tuple(_group_infos(self._footer))

    @property
    def size_bytes(self) -> int:
        """About what it takes while it is kept: the footer."""
        return 2_000 + self._footer.serialized_size + 500 * len(self.groups)

    def read_series(self, group: int) -> GroupSeries:
        """The labels of a row group's series, found where the columns change."""
        with self._readable():
            return _group_series(self._read(group, [METRIC, LABELS]))

    def read_samples(self, group: int) -> GroupSamples:
        """What a row group's samples have besides labels."""
        with self._readable():
            return _group_samples(self._read(group, self._sample_columns))

    def stored_bytes(self, group: int, columns: Sequence[str]) -> int:
        """What reading these columns of a row group takes from the disk."""
        row_group = self._footer.row_group(group)
        found = (row_group.column(at) for at in range(row_group.num_columns))
        return sum(
            column.total_compressed_size for column in found if column.path_in_schema.partition(".")[0] in columns
        )

    def _read(self, group: int, columns: list[str]) -> Any:
        with _arrow.OSFile(str(self.path)) as handle:
            file = _parquet.ParquetFile(
                handle,
                metadata=self._footer,
                read_dictionary=[METRIC, LABELS],
                pre_buffer=False,
                page_checksum_verification=True,
            )
            return file.read_row_group(group, columns=columns, use_threads=False)

    @contextmanager
    def _readable(self) -> Generator[None]:
        """Whatever is wrong with what is read in the block is told with the segment's name."""
        try:
            yield
        except (_arrow.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise UnreadableSegmentError(self.url, why) from error


def checksum_of(data: bytes) -> str:
    """The checksum of a whole file, as the catalog has it."""
    return CHECKSUM_PREFIX + xxhash.xxh3_128_hexdigest(data)


def _verify(path: Path, url: str, checksum: str) -> None:
    hasher = xxhash.xxh3_128()
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise UnreadableSegmentError(url, error.strerror or str(error)) from error
    found = CHECKSUM_PREFIX + hasher.hexdigest()
    if found != checksum:
        raise UnreadableSegmentError(url, f"its checksum is {found}, and the catalog says {checksum}")


def _group_infos(footer: Any) -> list[GroupInfo]:
    found: list[GroupInfo] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        by_name = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
        metric, time = by_name[METRIC].statistics, by_name[TIMESTAMP].statistics
        if time is None or not time.has_min_max:
            raise ValueError(f"its row group {number} has no statistics of times")
        metrics = (metric.min, metric.max) if metric is not None and metric.has_min_max else None
        found.append(GroupInfo(number, group.num_rows, metrics, int(time.min_raw), int(time.max_raw)))
    return found


def _group_series(table: Any) -> GroupSeries:
    metrics, labels = _dictionary(table.column(METRIC)), _dictionary(table.column(LABELS))
    metric_codes, label_codes = _codes(metrics), _codes(labels)
    changes = (metric_codes[1:] != metric_codes[:-1]) | (label_codes[1:] != label_codes[:-1])
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(changes) + 1))
    names: list[str] = metrics.dictionary.to_pylist()
    texts: list[str] = labels.dictionary.to_pylist()
    first_metrics: list[int] = metric_codes[starts].tolist()
    first_labels: list[int] = label_codes[starts].tolist()
    pairs = zip(first_metrics, first_labels, strict=True)
    found = tuple(labels_of(names[metric], texts[text]) for metric, text in pairs)
    return GroupSeries(found, np.append(starts, len(metric_codes)), SeriesIndex(found))


def _group_samples(table: Any) -> GroupSamples:
    timestamps: I64 = table.column(TIMESTAMP).combine_chunks().to_numpy(zero_copy_only=False).view(np.int64)
    values: F64 = table.column(VALUE).combine_chunks().to_numpy(zero_copy_only=False)
    histograms: Objects | None = None
    if HISTOGRAM in table.column_names:
        found = from_arrow(table.column(HISTOGRAM).combine_chunks())
        histograms = found if are_histograms(found).any() else None
    return GroupSamples(timestamps, values, histograms, _starts_of(table))


def _starts_of(table: Any) -> I64 | None:
    if START not in table.column_names:
        return None
    column = table.column(START).combine_chunks()
    if column.null_count == len(column):
        return None
    return column.cast(_arrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _dictionary(column: Any) -> Any:
    return column.unify_dictionaries().combine_chunks()


def _codes(column: Any) -> NDArray[np.int32]:
    return column.indices.to_numpy(zero_copy_only=False)
