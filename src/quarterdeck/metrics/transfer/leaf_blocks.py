"""`LeafWriter` and `LeafReader`: the answer of one shard to a leaf, into an artifact and out of it.

What comes out is what went in: the same cuts in the same order, every number that is present bit by bit, and one axis
for blocks side by side that have the same series. Where a value is absent it may have become another.

Whether there are columns for histograms must be known when an artifact is opened, and a later block may be the first
that has any. For a small answer this is waited for, because to a small artifact these columns cost as much as all
others; a larger one has them whenever there may be histograms.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.metrics.arrow_arrays import Array, RecordBatch, pa
from quarterdeck.metrics.promql.blocks import Axis
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.transfer import rows as rw
from quarterdeck.metrics.transfer.forms import form_of
from quarterdeck.metrics.transfer.notes_text import Report, notes_as_json, notes_from_json

_SMALL_BYTES: Final = 256 * 1024
"""So much is held until the answer is whole: then it is small."""
_MOST_STEPS: Final = 2**31
"""Of samples, which have times of their own: it is a number and no more."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The rows of a block."""

    others: list[Array]
    histograms: list[Array]
    """None at all: the block has no histograms."""

    @property
    def size_bytes(self) -> int:
        """What the columns take."""
        return sum(column.get_total_buffer_size() for column in (*self.others, *self.histograms))


class LeafWriter:
    """Writes blocks to an artifact, which is the caller's to finish or to abandon."""

    def __init__(self, leaf: BaseExpr, sink: RowSink) -> None:
        self._form = form_of(leaf)
        self._sink = sink
        self._schema: rw.Schema | None = None
        self._axis: Axis | None = None
        self._waiting: list[_Columns] = []
        """The first blocks, until it is known whether there are columns for histograms."""
        self._waiting_bytes = 0

    def write(self, block: LeafBlock) -> None:
        """Adds a block; they come by rising time."""
        columns = self._columns(block)
        if self._schema is not None:
            self._put(columns)
            return
        self._waiting.append(columns)
        self._waiting_bytes += columns.size_bytes
        if self._waiting_bytes > _SMALL_BYTES:
            self._open(with_histograms=bool(self._form.histogram_columns))

    def finish(self, notes: Notes, report: Report) -> None:
        """Adds what is to be known about the answer, as the last row."""
        if self._schema is None:
            self._open(with_histograms=any(columns.histograms for columns in self._waiting))
        self._sink.write(rw.notes_batch(self._schema, notes_as_json(notes, report)))

    def _columns(self, block: LeafBlock) -> _Columns:
        values = block.values
        head = rw.head(self._form.kind, block.grid, values.axis, not rw.is_same_axis(self._axis, values.axis))
        self._axis = values.axis
        if not len(values.axis):
            return _Columns(head, [])
        return _Columns([*head, *self._form.write(values)], self._form.write_histograms(values) or [])

    def _open(self, *, with_histograms: bool) -> None:
        self._schema = rw.schema_of(self._form, with_histograms)
        self._sink.open(self._schema, rw.TS_COLUMN)
        for columns in self._waiting:
            self._put(columns)
        self._waiting.clear()

    def _put(self, columns: _Columns) -> None:
        self._sink.write(rw.batch_of(self._schema, [*columns.others, *columns.histograms]))


class LeafReader:
    """Gives the blocks of an artifact, one after the other. `notes` and `report` are there when there are no more. One
    that is let go of half-way holds nothing: what it has begun leads to `_Reading` and not back to it."""

    def __init__(self, leaf: BaseExpr, batches: Iterator[RecordBatch], memory: Memory | None = None) -> None:
        """The batches may be cut anywhere. They are a worker's word: every value in them is one of its type, and no
        more is taken for granted. What cannot be is an error of the protocol. Labels are on the account of `memory` as
        long as blocks have them."""
        self._reading = _Reading(leaf, memory)
        self._blocks = self._reading.blocks(batches)

    def __iter__(self) -> Iterator[LeafBlock]:
        return self

    def __next__(self) -> LeafBlock:
        return next(self._blocks)

    def drain(self) -> None:
        """Reads to the end; blocks that nobody has taken are lost."""
        for _ in self._blocks:
            pass

    @property
    def notes(self) -> Notes:
        """What is to be known about the answer."""
        if self._reading.notes is None:
            raise RuntimeError("notes come last: read all blocks first, or drain the reader")
        return self._reading.notes

    @property
    def report(self) -> Report:
        """What the work tells about itself."""
        if self._reading.notes is None:
            raise RuntimeError("the report comes last: read all blocks first, or drain the reader")
        return self._reading.report


class _Reading:
    """How far an artifact has been read."""

    def __init__(self, leaf: BaseExpr, memory: Memory | None) -> None:
        self._form = form_of(leaf)
        self._schemas = [rw.schema_of(self._form, with_histograms) for with_histograms in (False, True)]
        self._most_steps = _MOST_STEPS if leaf.merge is Merge.SAMPLES else leaf.grid.count
        self._memory = memory
        self._axis_bytes = 0
        self._axis: Axis | None = None
        self.notes: Notes | None = None
        self.report: Report = {}

    def blocks(self, batches: Iterator[RecordBatch]) -> Iterator[LeafBlock]:
        held: list[RecordBatch] = []
        for batch in batches:
            if not any(batch.schema.equals(schema) for schema in self._schemas):
                _refuse("its columns are not those of the leaf", "report it: its worker evaluated another leaf")
            for begins, rows in rw.cut_by_block(batch):
                if begins and held:
                    with _understood():
                        block = self._block(held)
                    yield block
                    held.clear()
                held.append(rows)
        if not held or rw.kind_of(held[0]) != rw.NOTES:
            _refuse("it ends before its notes", "report it: its worker announced an artifact that was not finished")
        with _understood():
            self.notes, self.report = notes_from_json(rw.notes_in(held[0]))

    def _block(self, held: list[RecordBatch]) -> LeafBlock:
        rows = held[0] if len(held) == 1 else pa.concat_batches(held)
        if (kind := rw.kind_of(rows)) != self._form.kind:
            _refuse(f"a block is {kind} and not {self._form.kind}", "report it: its worker evaluated another leaf")
        grid, series = rw.grid_of(rows, self._most_steps), rw.series_of(rows)
        if not rw.has_axis(series, self._axis):
            self._make_room(rw.labels_bytes(series))
        self._axis = rw.axis_of(series, self._axis)
        return LeafBlock(grid, self._form.read(series, self._axis, grid.count))

    def _make_room(self, size_bytes: int) -> None:
        """For the labels of another axis, before they are made; those of the one before go."""
        if self._memory is not None:
            self._memory.hold(-self._axis_bytes)
            self._axis_bytes = 0
            self._memory.hold(size_bytes)
            self._axis_bytes = size_bytes


@contextmanager
def _understood() -> Generator[None]:
    """What does not fit together shows where it is put together, in one way or another."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        _refuse(f"it makes no sense: {error!r}"[:300], "report it: its worker wrote what no worker writes")


def _refuse(why: str, what_next: str) -> NoReturn:
    raise QuarterdeckError(ErrorCode.PROTOCOL, "the answer of a leaf cannot be read", why, what_next)
