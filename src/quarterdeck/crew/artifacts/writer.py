"""Writes one artifact: record batches in, a Parquet file in the spool out, with everything that is announced of it.

The checksum is taken of the bytes on their way to the disk; the file is never read again. Batches are put together to
row groups of bounded size, so memory stays bounded at both ends whatever the size of the result and of its batches. An
error in the middle removes what was written. One thread uses a writer.
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.format import Hasher, Stamp, checksum_text
from quarterdeck.crew.artifacts.parquet import Memory, ParquetFile, RecordBatch, Schema, Table, TimeRange, table_of
from quarterdeck.stores.disk import GrowingFile

_GROUP_ROWS: Final = 128 * 1024
_GROUP_BYTES: Final = 32 * 1024 * 1024
"""In memory, before encoding. A row group is what a reader has to hold."""
_TINY_BYTES: Final = 4096
"""Up to here a result is written plainly: compression saves nothing that a network packet would notice."""
_AT_ONCE_BYTES: Final = 1024 * 1024
"""Up to here a result that is there as a whole is written to memory first, and from there at once."""
_WRITE_BYTES: Final = 128 * 1024
"""pyarrow writes in many small pieces; they are put together to one write to the disk."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What is known of an artifact when its last byte is written."""

    size_bytes: int
    checksum: str
    stamp: Stamp


class RowSink(Protocol):
    """Where whoever makes rows puts them: an `ArtifactWriter`, which somebody else finishes or abandons."""

    def open(self, schema: Schema, ts_column: str | None) -> None:
        """Says what the rows look like. `ts_column` holds their time: int64 in milliseconds, or a timestamp."""
        ...

    def write(self, batch: RecordBatch) -> None:
        """Adds rows."""
        ...


class Berth(Protocol):
    """Where an artifact comes to lie: the spool's side of a writer."""

    def create_file(self) -> GrowingFile: ...

    def keep_data(self, data: bytes, finished: Finished) -> Artifact | None:
        """Keeps it in memory; None if it has to be a file."""
        ...

    def keep_file(self, file: GrowingFile, finished: Finished) -> Artifact: ...


class _HashingSink:
    """Where pyarrow writes to. Counts and hashes what comes, and passes it on to a file once it is worth one."""

    closed = False

    def __init__(self, berth: Berth) -> None:
        self._berth = berth
        self._file: GrowingFile | None = None
        self._hasher = Hasher()
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._written_bytes = 0
        self._dead = False

    def write(self, data: bytes) -> int:
        if self._dead:  # when a writer goes, pyarrow writes a footer: nobody wants it any more
            return len(data)
        piece = bytes(data)  # free for bytes; a buffer of pyarrow's may change after this call
        if self._pieces and self._waiting_bytes + len(piece) >= _WRITE_BYTES:
            self._to_file(self._joined())
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)
        return len(piece)

    def flush(self) -> None:
        """pyarrow says this after each row group; nobody reads before the end."""

    def close(self) -> None:
        """The file is closed by whoever keeps or abandons it."""

    def keep(self, stamp: Stamp) -> Artifact:
        """All is written."""
        block = self._joined()
        size_bytes = self._written_bytes + len(block)
        finished = Finished(size_bytes, checksum_text(self._hasher), stamp)
        if self._file is None:
            artifact = self._berth.keep_data(block, finished)
            if artifact is not None:
                return artifact
        return self._berth.keep_file(self._to_file(block), finished)

    def abandon(self) -> None:
        self._dead = True
        self._pieces.clear()
        if self._file is not None:
            self._file.abandon()

    def _joined(self) -> bytes:
        block = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._hasher.update(block)
        return block

    def _to_file(self, block: bytes) -> GrowingFile:
        if self._file is None:
            self._file = self._berth.create_file()
        self._file.write(block)
        self._written_bytes += len(block)
        return self._file


class ArtifactWriter:
    """Open it, write batches, finish or abandon it."""

    def __init__(self, berth: Berth) -> None:
        self._sink = _HashingSink(berth)
        self._schema: Schema | None = None
        self._times: TimeRange | None = None
        self._parquet: ParquetFile | None = None
        self._row_count = 0
        self._waiting: list[RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._over = False

    def open(self, schema: Schema, ts_column: str | None) -> None:
        """Says what the rows look like. `ts_column` holds their time: int64 in milliseconds, or a timestamp."""
        if self._schema is not None or self._over:
            raise RuntimeError("an artifact is opened once")
        try:
            self._times = TimeRange(schema, ts_column)
        except ValueError as error:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the artifact was not written",
                str(error),
                "name a column of the result that holds its time, or none",
            ) from error
        self._schema = schema

    def write(self, batch: RecordBatch) -> None:
        """Adds rows. What does not fit on the disk raises `DiskFullError`, and nothing of the artifact stays."""
        if self._schema is None or self._over:
            raise RuntimeError("rows are written to an open artifact")
        if not batch.schema.equals(self._schema):
            self.abandon()
            raise QuarterdeckError(
                ErrorCode.INTERNAL,
                "the artifact was not written",
                f"it was opened for {self._schema}, and a batch is {batch.schema}",
                "report it: an executor changed its mind in the middle",
            )
        if batch.num_rows == 0:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += _size_bytes(batch)
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            try:
                self._write_groups()
            except BaseException:
                self.abandon()
                raise

    def finish(self) -> Artifact:
        """Completes the file and puts it where it can be fetched."""
        if self._times is None or self._over:
            raise RuntimeError("an open artifact is finished, once")
        at_once = Memory() if self._parquet is None and self._waiting_bytes <= _AT_ONCE_BYTES else None
        try:
            self._write_groups(at_once)
            stamp = Stamp(self._row_count, self._times.min_ts, self._times.max_ts)
            self._begun(at_once, None, tiny=True).finish(stamp.encoded())
            if at_once is not None:
                self._sink.write(at_once.taken())
            artifact = self._sink.keep(stamp)
        except BaseException:
            self.abandon()
            raise
        self._over = True
        return artifact

    def abandon(self) -> None:
        """Leaves nothing behind; again is fine, and after `finish` it does nothing."""
        if self._over:
            return
        self._over = True
        self._waiting.clear()
        self._sink.abandon()

    def _write_groups(self, sink: Memory | None = None) -> None:
        if not self._waiting:
            return
        assert self._times is not None
        table = table_of(self._waiting, self._schema)
        parquet = self._begun(sink, table, tiny=self._waiting_bytes <= _TINY_BYTES)
        self._times.add(table)
        # Even groups: a few rows too many do not make a group of their own.
        groups = max(1, round(self._waiting_rows / _GROUP_ROWS), round(self._waiting_bytes / _GROUP_BYTES))
        parquet.write(table, rows_per_group=math.ceil(self._waiting_rows / groups))
        self._row_count += self._waiting_rows
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0

    def _begun(self, sink: Memory | None, first: Table | None, *, tiny: bool) -> ParquetFile:
        """Not before there is something to write: only then it is known how much."""
        if self._parquet is None:
            self._parquet = ParquetFile(sink or self._sink, self._schema, first, tiny=tiny)
        return self._parquet


def _size_bytes(batch: RecordBatch) -> int:
    """Of what it holds. To ask what its buffers hold is much quicker, and more only when it is a part of others."""
    buffers_bytes: int = batch.get_total_buffer_size()
    return buffers_bytes if buffers_bytes <= _TINY_BYTES else batch.nbytes
