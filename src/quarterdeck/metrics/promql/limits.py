"""What one query may take, and the account of its memory."""

from dataclasses import dataclass
from typing import Final

from quarterdeck.metrics.promql.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one query."""

    memory_bytes: int = 1 << 30
    """Samples read, values held between steps, and the answer. More is an error; too little refuses useful queries."""
    max_points: int = 11_000
    """Steps of a range query; the number that Prometheus allows."""
    block_cells: int = 2_000_000
    """Values computed at once, over all series: the size of what streams out. Smaller answers sooner, larger is
    faster."""


class Memory:
    """The account of one query: what is held, and what is needed for a moment on top."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.held_bytes: int = 0
        self.peak_bytes: int = 0

    def hold(self, size_bytes: int) -> None:
        """Take memory until it is released; a negative size releases."""
        self.need(size_bytes)
        self.held_bytes += size_bytes

    def need(self, size_bytes: int) -> None:
        """Say what the next step is going to take, before it takes it."""
        total = self.held_bytes + size_bytes
        self.peak_bytes = max(self.peak_bytes, total)
        if size_bytes > 0 and total > self.limit_bytes:
            raise LimitExceeded(
                f"it needs {_mib(total)} of memory and the limit of a query is {_mib(self.limit_bytes)}",
                "ask for fewer series, a shorter range or a longer step, or raise the limit",
            )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
