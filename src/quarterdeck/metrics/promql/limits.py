"""What one query may take, and the account of its memory."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from quarterdeck.metrics.promql.errors import LimitExceeded

CELL_BYTES: Final = 9
"""A float, and whether it is there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one query."""

    memory_bytes: int = 1 << 30
    """Samples read, values held between steps, and the answer. More is an error; too little refuses useful queries."""
    max_points: int = 11_000
    """Of a range query, after the first one; the number that Prometheus allows."""
    block_cells: int = 2_000_000
    """Values computed at once, over all series: the size of what streams out. Smaller answers sooner, larger is
    faster. A query whose leaves together would fill much of its memory with blocks of this size has smaller ones."""

    def block_cells_of(self, streams: int) -> int:
        """The values to compute at once where so many streams of blocks come together.

        Of each a block waits while another is made of it; a quarter of the memory must do for that.
        """
        return max(1, min(self.block_cells, self.memory_bytes // (4 * (2 * CELL_BYTES * streams + 64))))


ROW_BYTES: Final = 400
"""About what labels take that a query makes up for one series: measured with five of them."""
PAIR_BYTES: Final = 80
"""What each further label takes, without its text."""
LISTED_BYTES: Final = 1_000
"""About what a series takes in a list: its labels twice, as text or as they are sorted."""
LABEL_CHARACTERS: Final = 65_536
"""The most that a query may make a label's value of. Names and addresses have hundreds at most; with a template, each
function of a chain can double what the one before it has made."""


def check_label(characters: int, function: str) -> None:
    """Refuse a label's value of so many characters before it is made."""
    if characters > LABEL_CHARACTERS:
        raise LimitExceeded(
            f"a label's value that {function}() makes would have {characters:,} characters and may have "
            f"{LABEL_CHARACTERS:,}",
            "make shorter labels",
        )


_SPARE_BYTES: Final = 16 << 20
"""What a query keeps of the shared memory though it does not need it now: the next block will."""


class Share(Protocol):
    """What one query has of the memory that all of them share."""

    def draw(self, total_bytes: int) -> int:
        """Ask for this much altogether; what is granted is at least that. Raises `LimitExceeded`."""
        ...

    def give_back(self, total_bytes: int) -> int:
        """Need no more than this from now on; what is still granted."""
        ...


class Memory:
    """The account of one query: what is held, and what is needed for a moment on top.

    One thread evaluates a query, and only that thread keeps its account: kernels take nothing but what was asked for
    before they start.
    """

    def __init__(self, limit_bytes: int, share: Share | None = None) -> None:
        """`limit_bytes` is for this query alone; without a share there is no other limit."""
        self.limit_bytes: Final = limit_bytes
        self.held_bytes: int = 0
        self.peak_bytes: int = 0
        self._lent_bytes: int = 0
        self._share: Final = share
        self._granted_bytes: int = limit_bytes if share is None else share.give_back(0)

    def hold(self, size_bytes: int) -> None:
        """Take memory until it is released; a negative size releases."""
        self.need(size_bytes)
        self.held_bytes += size_bytes

    def lend(self, size_bytes: int) -> None:
        """Hold what is handed on until the frame ends in which that happens.

        Whoever takes a block makes another one out of it: room for that must be there, too.
        """
        self.need(2 * size_bytes)
        self.hold(size_bytes)
        self._lent_bytes += size_bytes

    @contextmanager
    def frame(self) -> Generator[None]:
        """What is lent within is given back at the end."""
        before, self._lent_bytes = self._lent_bytes, 0
        try:
            yield
        finally:
            self.hold(-self._lent_bytes)
            self._lent_bytes = before
            if self._share is not None and self._granted_bytes > self.held_bytes + _SPARE_BYTES:
                self._granted_bytes = self._share.give_back(self.held_bytes)

    def need(self, size_bytes: int) -> None:
        """Say what the next step is going to take, before it takes it."""
        total = self.held_bytes + size_bytes
        self.peak_bytes = max(self.peak_bytes, total)
        if size_bytes > 0 and total > self.limit_bytes:
            raise LimitExceeded(
                f"it needs {_mib(total)} of memory and the limit of a query is {_mib(self.limit_bytes)}",
                "ask for fewer series, a shorter range or a longer step, or raise the limit",
            )
        if total > self._granted_bytes and self._share is not None:
            self._granted_bytes = self._share.draw(total)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
