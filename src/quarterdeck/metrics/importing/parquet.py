"""Samples from Parquet, one row per sample, with a mapping that says what the columns are.

The file is read one batch of rows after the other, and only the columns that are needed. Text stays in its dictionary.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from numpy.typing import NDArray
from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.metrics.importing.batches import BATCH_SAMPLES, SampleBatch
from quarterdeck.metrics.importing.column_mapping import OWN_FORM, ColumnMapping
from quarterdeck.metrics.importing.column_numbers import Problem, first_null, times_of, values_of
from quarterdeck.metrics.importing.errors import Malformed, Named, SourceError, bad_file, bad_row, told_with
from quarterdeck.metrics.importing.label_columns import (
    CodedColumn,
    JsonLabels,
    LabelValues,
    MapLabels,
    MetricNames,
    Pairs,
    is_map,
    is_text,
)
from quarterdeck.metrics.importing.row_series import series_of
from quarterdeck.metrics.importing.series_table import Places
from quarterdeck.metrics.importing.table_schema import check_schema
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.stores.regular_files import stat_regular

_arrow: Final[Any] = pyarrow
_parquet: Final[Any] = parquet

_READ_BUFFER_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 64 << 20
"""Of wide rows fewer are read at once."""
_MAP_ROWS: Final = 1 << 16
"""Maps are unfolded from their dictionaries: a file says little about how large they become."""

_WHY: Final = "it is damaged, or no Parquet"
_NEXT: Final = "copy or write it again"


class ParquetReader:
    """A `SampleReader` of a Parquet file."""

    def __init__(self, path: Path, mapping: ColumnMapping = OWN_FORM, *, name: str = "") -> None:
        """Raises `SourceError` when the file is not there, is no Parquet, or has not the columns of the mapping.
        `name` is what errors call it, if not by its path."""
        self.path: Final = path
        self._name: Final = name or path
        self._mapping: Final = mapping
        self._fixed: Final[Pairs] = [] if mapping.metric_name is None else [(METRIC_NAME, mapping.metric_name)]
        with _told(self._name):
            self._size_bytes: Final = stat_regular(path).st_size
            with _arrow.OSFile(str(path)) as handle:
                file = _parquet.ParquetFile(handle)
                self._footer: Final[Any] = file.metadata
                schema = file.schema_arrow
            check_schema(self._name, schema, mapping)
            self._columns: Final = sorted({column for column, _ in mapping.needed()})
            self._texts: Final = [name for name in self._columns if is_text(schema.field(name).type)]
            has_map = any(is_map(schema.field(name).type) for name in self._columns)
            self._batch_rows: Final = _MAP_ROWS if has_map else _rows_of(self._footer)
        self._rows_read = 0

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def read_bytes(self) -> int:
        """By the share of rows: columns are read from many places of the file."""
        rows: int = self._footer.num_rows
        return self._size_bytes * min(self._rows_read, rows) // rows if rows > 0 else self._size_bytes

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        """Nothing: Parquet has no place for it."""
        return MappingProxyType({})

    def batches(self) -> Iterator[SampleBatch]:
        """To be asked for once."""
        places = Places()
        parts: list[_Columns] = []
        for table in self._tables():
            parts.append(self._columns_of(table, places))
            self._rows_read += table.num_rows
            if sum(part.series.size for part in parts) >= BATCH_SAMPLES:
                yield _batch_of(parts, places)
                places, parts = Places(), []
        if parts:
            yield _batch_of(parts, places)

    def _tables(self) -> Iterator[Any]:
        """Record batches, with text in dictionaries, and known to be sound."""
        with _told(self._name), _arrow.OSFile(str(self.path)) as handle:
            # Not pre-buffered: pyarrow would then hold all that it will ever read.
            file = _parquet.ParquetFile(
                handle,
                metadata=self._footer,
                read_dictionary=self._texts,
                buffer_size=_READ_BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            for table in file.iter_batches(batch_size=self._batch_rows, columns=self._columns):
                table.validate(full=True)
                yield table

    def _columns_of(self, table: Any, places: Places) -> "_Columns":
        """What some rows have; raises for the first row that is wrong."""
        mapping = self._mapping
        times, values = table.column(mapping.timestamp), table.column(mapping.value)
        timestamps, far = times_of(times, mapping.timestamp_unit)
        series, nameless = series_of(self._coded(table), table.num_rows, self._fixed, places)
        starts, odd = self._starts_of(table)
        problems = [*first_null(times, mapping.timestamp), *first_null(values, mapping.value), *far, *nameless, *odd]
        if problems:
            first = min(problems, key=lambda problem: problem.row)
            raise bad_row(self._name, self._rows_read + first.row + 1, first.fault)
        return _Columns(series, timestamps, values_of(values), starts)

    def _starts_of(self, table: Any) -> tuple[I64 | None, list[Problem]]:
        """A null is no start timestamp. One that is after its sample is as good as none, which queries know."""
        name = self._mapping.start
        if name is None:
            return None, []
        starts, far = times_of(table.column(name), self._mapping.timestamp_unit)
        return starts, [
            Problem(
                one.row, Malformed(f"of the start timestamp in column {name!r}, {one.fault.why}", one.fault.next_step)
            )
            for one in far
        ]

    def _coded(self, table: Any) -> list[CodedColumn]:
        mapping = self._mapping
        coded: list[CodedColumn] = []
        if mapping.metric is not None:
            coded.append(MetricNames(table.column(mapping.metric), mapping.metric))
        coded += [LabelValues(table.column(column), label) for label, column in mapping.label_columns]
        if mapping.labels_column is not None:
            column = table.column(mapping.labels_column)
            coded.append(MapLabels(column) if is_map(column.type) else JsonLabels(column, mapping.labels_column))
        return coded


class _Columns(NamedTuple):
    """Some samples, in the order of their rows."""

    series: NDArray[np.int32]
    timestamps: I64
    values: F64
    starts: I64 | None


def _batch_of(parts: list[_Columns], places: Places) -> SampleBatch:
    found = [part.starts for part in parts if part.starts is not None]
    starts = np.concatenate(found) if found else None
    return SampleBatch(
        places.labels(),
        np.concatenate([part.series for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        np.concatenate([part.values for part in parts]),
        starts=starts if starts is not None and starts.any() else None,
    )


def _rows_of(footer: Any) -> int:
    """How many rows to read at once: as many as a batch has, or fewer if they are wide.

    All columns count, needed or not: to ask for those of one, pyarrow ends the process if the footer is damaged.
    """
    size_bytes = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
    return max(1, min(BATCH_SAMPLES, footer.num_rows * _BATCH_BYTES // max(1, size_bytes)))


@contextmanager
def _told(path: Named) -> Generator[None]:
    """Whatever pyarrow says about what it read becomes an error that names the file."""
    try:
        with told_with(path, _WHY, _NEXT):
            yield
    except SourceError:
        raise
    except (_arrow.ArrowException, ValueError, OverflowError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise bad_file(path, f"{_WHY} ({first})", _NEXT) from error
