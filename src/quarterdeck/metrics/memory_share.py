"""A query's share of the memory of its process: an account of the budget, in words about the query."""

from collections.abc import Callable
from typing import Final

from quarterdeck.crew.process.memory_budget import Account, MemoryBudget, MemoryShortError
from quarterdeck.metrics.promql.errors import LimitExceeded


def limit_exceeded(error: MemoryShortError) -> LimitExceeded:
    """What whoever asked is told."""
    return LimitExceeded(f"{error.what}: {error.why}", error.next_step)


class MemoryShare:
    """Implements `promql.limits.Share`. Use it as a context: at the end all of it is given back."""

    def __init__(
        self, budget: MemoryBudget, query_id: str, text: str, end: Callable[[LimitExceeded], None] | None = None
    ) -> None:
        """`end` is called, from any thread, when the query is to end although it asked for nothing."""

        def told(error: MemoryShortError) -> None:
            if end is not None:
                end(limit_exceeded(error))

        self._account: Final[Account] = budget.open(f"query {query_id}", text, told)

    def draw(self, total_bytes: int) -> int:
        try:
            return self._account.draw(total_bytes)
        except MemoryShortError as error:
            raise limit_exceeded(error) from None

    def give_back(self, total_bytes: int) -> int:
        return self._account.give_back(total_bytes)

    @property
    def is_ended(self) -> bool:
        """Whether the query is to end."""
        return self._account.ended is not None

    def check(self) -> None:
        """Raise `LimitExceeded` if the query is to end."""
        if self._account.ended is not None:
            raise limit_exceeded(self._account.ended)

    def close(self) -> None:
        self._account.close()

    def __enter__(self) -> "MemoryShare":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
