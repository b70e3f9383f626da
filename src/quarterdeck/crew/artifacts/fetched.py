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
        """The rows, some at a time: memory is needed for a few batches, whatever the size."""
        source = self.path if self.data is None else self.data
        if source is None:
            raise RuntimeError(f"{self.metadata.url} was released before it was read")
        if self._footer is None:
            self._footer = self._read_footer(source)
        return read_batches(source, self._footer, self.metadata.size_bytes)

    def _read_footer(self, source: bytes | Path) -> Footer:
        """What was in memory was verified by its stamp: whether that is true of the rows is seen only here."""
        try:
            footer = read_footer(source)
            if footer.row_count != self.metadata.row_count:
                raise ValueError(f"it has {footer.row_count} rows, its stamp says {self.metadata.row_count}")
        except ValueError as error:
            raise QuarterdeckError(
                ErrorCode.PROTOCOL,
                f"the artifact from {self.metadata.url} cannot be read",
                str(error),
                "report it: its worker stamped what it had not written",
            ) from error
        return footer

    def release(self) -> None:
        """Gives memory or disk back; again is fine. It deletes a file, so a large one is released in a thread."""
        delete, self._delete = self._delete, None
        self.data = None
        self.path = None
        if delete is not None:
            delete()
