"""LIMIT and OFFSET over rows that come in the order of the files."""

from collections.abc import Iterator

from quarterdeck.scan.formats import Batch


class RowWindow:
    """Rows from `offset` on, up to `limit` of them. Cut all batches, in order."""

    def __init__(self, offset: int, limit: int | None) -> None:
        self._skip = offset
        self._left = limit

    @property
    def is_full(self) -> bool:
        """Whether no more rows are wanted."""
        return self._left == 0

    def cut(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """As many batches, with fewer rows; none after the last one that is wanted."""
        for batch in batches:
            skipped = min(self._skip, batch.num_rows)
            self._skip -= skipped
            rows = batch.slice(skipped, self._left)
            if self._left is not None:
                self._left -= rows.num_rows
            yield rows
            if self.is_full:
                return
