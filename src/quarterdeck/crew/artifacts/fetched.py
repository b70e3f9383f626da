"""A result that is here and verified: in memory when it is small, else in a file that goes when it is released."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.parquet import Footer, RecordBatch, read_batches, read_footer


@dataclass(slots=True)
class FetchedArtifact:
    """Either `data` or `path` is there, until it is released."""

    metadata: Artifact
    data: bytes | None
    path: Path | None
    _footer: Footer | None = field(default=None, repr=False)
    _delete: Callable[[], None] | None = field(default=None, repr=False)

    def read_batches(self) -> Iterator[RecordBatch]:
        """The rows, some at a time: memory is needed for a few batches, whatever the size. That the bytes are those
        which its worker announced does not make them rows: what is wrong with them is an error of the protocol, raised
        where it is found."""
        source = self.path if self.data is None else self.data
        if source is None:
            raise RuntimeError(f"{self.metadata.url} was released before it was read")
        if self._footer is None:
            self._footer = self._read_footer(source)
        return self._read(source, self._footer)

    def _read(self, source: bytes | Path, footer: Footer) -> Iterator[RecordBatch]:
        left = footer.row_count
        try:
            for batch in read_batches(source, footer, self.metadata.size_bytes):
                left -= batch.num_rows
                if left < 0:
                    break
                yield batch
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if left:
            raise self._unreadable(f"it has other rows than the {footer.row_count:,} that it says")

    def _read_footer(self, source: bytes | Path) -> Footer:
        """What was in memory was verified by its stamp: whether that is true of the rows is seen only here."""
        try:
            footer = read_footer(source)
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if footer.row_count != self.metadata.row_count:
            raise self._unreadable(f"it has {footer.row_count} rows, its stamp says {self.metadata.row_count}")
        return footer

    def _unreadable(self, why: str) -> QuarterdeckError:
        return QuarterdeckError(
            ErrorCode.PROTOCOL,
            f"the artifact from {self.metadata.url} cannot be read",
            why,
            "report it: its worker stamped what it had not written",
        )

    def release(self) -> None:
        """Gives memory or disk back; again is fine. It deletes a file, so a large one is released in a thread."""
        delete, self._delete = self._delete, None
        self.data = None
        self.path = None
        if delete is not None:
            delete()
