"""The table that a leaf's answer is: which columns it has, and what stands in those that all kinds of blocks have.

A block is one row for each of its series or groups, in order; a block without any is one row without a `series`. The
last row of all has what is to be known about the answer.

| column | in which rows |
|---|---|
| `kind` | all: `vector`, `partial` or `samples`; `notes` in the last |
| `timestamp`, `step_ms`, `steps` | of blocks: where the block is evaluated, from its first time on, in milliseconds |
| `series` | of series: its number in the block, from 0 on |
| `labels`, `nameless` | of series: labels as a JSON object; null in a block with the series of the block before |
| others | of series: the values, see `forms` |
| `notes` | the last: notes and report, as JSON |
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from quarterdeck.metrics.arrow_arrays import Array, RecordBatch, flags, numbers, pa, whole_numbers
from quarterdeck.metrics.promql.blocks import Axis, Grid
from quarterdeck.metrics.promql.limits import ROW_BYTES
from quarterdeck.metrics.transfer.forms import Columns, Form
from quarterdeck.metrics.transfer.json_texts import as_texts, from_texts

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""

TS_COLUMN: Final = "timestamp"
NOTES: Final = "notes"
_HEAD: Final[Columns] = (
    ("kind", pa.string()),
    (TS_COLUMN, pa.int64()),
    ("step_ms", pa.int64()),
    ("steps", pa.int64()),
    ("series", pa.int64()),
    ("labels", pa.string()),
    ("nameless", pa.bool_()),
)
_TAIL: Final[Columns] = ((NOTES, pa.string()),)


@cache
def schema_of(form: Form, with_histograms: bool) -> Schema:
    """The columns of an answer."""
    return pa.schema([*_HEAD, *form.columns, *(form.histogram_columns if with_histograms else ()), *_TAIL])


def head(kind: str, grid: Grid, axis: Axis, is_new: bool) -> list[Array]:
    """The first columns of a block's rows; labels are told if the axis is new."""
    count = max(1, len(axis))
    numbered = np.arange(count)
    return [
        pa.array([kind] * count, pa.string()),
        *(numbers(np.full(count, value)) for value in (grid.start_ms, grid.step_ms, grid.count)),
        numbers(numbered, numbered < len(axis)),
        *(_told(axis) if is_new and len(axis) else (pa.nulls(count, pa.string()), pa.nulls(count, pa.bool_()))),
    ]


def batch_of(schema: Schema, columns: list[Array]) -> RecordBatch:
    """Rows that have these columns first, and null in all others."""
    others = [pa.nulls(len(columns[0]), kind) for kind in schema.types[len(columns) :]]
    return pa.RecordBatch.from_arrays([*columns, *others], schema=schema)


def notes_batch(schema: Schema, told: object) -> RecordBatch:
    """The last row."""
    others = [pa.nulls(1, kind) for kind in schema.types[1:-1]]
    return pa.RecordBatch.from_arrays([pa.array([NOTES], pa.string()), *others, as_texts([told])], schema=schema)


def cut_by_block(batch: RecordBatch) -> Iterator[tuple[bool, RecordBatch]]:
    """Stretches of rows that belong together, each with whether it begins there or goes on from the batch before."""
    begins = whole_numbers(batch.column("series")) == 0
    starts: list[int] = np.flatnonzero(begins).tolist()
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    for low, high in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield bool(begins[low]), batch.slice(low, high - low)


def kind_of(rows: RecordBatch) -> str:
    """What the rows are called."""
    return rows.column("kind")[0].as_py()


def grid_of(rows: RecordBatch, most_steps: int) -> Grid:
    """Where a block is evaluated. Raises `ValueError` if that is nowhere, or in more places than were asked for."""
    start_ms, step_ms, count = (rows.column(name)[0].as_py() for name in (TS_COLUMN, "step_ms", "steps"))
    if start_ms is None or step_ms is None or step_ms < 0 or count is None or not 0 <= count <= most_steps:
        raise ValueError(f"it has {count} steps of {step_ms} ms from {start_ms} on")
    return Grid(start_ms, step_ms, count)


def series_of(rows: RecordBatch) -> RecordBatch:
    """The rows of a block's series: none of the one row that a block without series has."""
    return rows if rows.column("series")[0].is_valid else rows.slice(0, 0)


def has_axis(series: RecordBatch, before: Axis | None) -> bool:
    """Whether a block has the series of the block before."""
    if before is None or len(before) != series.num_rows:
        return False
    return series.column("labels").null_count == series.num_rows


def labels_bytes(series: RecordBatch) -> int:
    """About what the labels of a block take once they are made: their text, and what holds it together."""
    return series.num_rows * ROW_BYTES + series.column("labels").nbytes


def axis_of(series: RecordBatch, before: Axis | None) -> Axis:
    """The series of a block. `before` are those of the block before, which are the same object if they still are."""
    if before is not None and has_axis(series, before):
        return before
    told, nameless = from_texts(series.column("labels")), series.column("nameless")
    labels = tuple([tuple(pairs.items()) for pairs in told])
    if nameless.null_count or not all(type(value) is str for some in labels for _, value in some):
        raise ValueError("its series have labels that are none")
    return Axis(labels, flags(nameless))


def is_same_axis(one: Axis | None, other: Axis) -> bool:
    """Whether two axes have the same series; they need not be one object."""
    return one is other or (
        one is not None and one.labels == other.labels and np.array_equal(one.nameless, other.nameless)
    )


def notes_in(rows: RecordBatch) -> Any:
    """What the last row tells."""
    return from_texts(rows.column(NOTES))[0]


def _told(axis: Axis) -> tuple[Array, Array]:
    return as_texts([dict(labels) for labels in axis.labels]), numbers(axis.nameless)
