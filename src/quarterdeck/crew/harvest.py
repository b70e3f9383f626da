"""The results of one query, in the order in which its works were given, with a bound on what is held for the reader.

Works are submitted as the reader gets on: at most so many are submitted and not yet read. So a slow reader costs
neither memory nor the workers' credit, and a hundred thousand works are made one by one as they are needed. How many
depends on how large results turn out to be: a few at first, then as many as fit into what one query may hold.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.model import Ended, WorkError, WorkKey, WorkSpec
from quarterdeck.crew.coordinator import CoordinatorDriver, QueryHandle
from quarterdeck.crew.ports import ResultT


@dataclass(frozen=True, slots=True)
class Window:
    """How far a query may run ahead of its reader."""

    max_works: int
    """More keeps more workers busy; each takes a place in the coordinator's records and spool."""
    max_bytes: int
    """Of results that were fetched and not read, as far as their average tells."""
    first_works: int = 16
    """While no result has shown how large they are."""

    def __post_init__(self) -> None:
        if min(self.max_works, self.max_bytes, self.first_works) < 1:
            raise ValueError(f"{self}: nothing would ever be submitted")

    def works(self, results: int, results_bytes: int) -> int:
        """How many works may be submitted and not read, after so many results of so many bytes."""
        if not results:
            return min(self.first_works, self.max_works)
        average_bytes = max(1, results_bytes // results)
        return max(1, min(self.max_works, self.max_bytes // average_bytes))


class Harvest(Generic[ResultT]):
    """Use it as a context: leaving it, however that comes about, cancels what is left and discards the unread."""

    def __init__(
        self,
        driver: CoordinatorDriver[ResultT],
        query_id: QueryId,
        specs: Iterable[WorkSpec],
        *,
        window: Window,
        size_of: Callable[[ResultT], int],
        wait_limit_s: float | None,
    ) -> None:
        self._handle: QueryHandle[ResultT] = driver.open_query(query_id, wait_limit_s)
        self._specs: Iterator[WorkSpec] = iter(specs)
        self._window = window
        self._size_of = size_of
        self._results = 0
        self._results_bytes = 0
        self._order: dict[WorkKey, None] = {}
        """The works that were submitted and not read, in their order."""
        self._early: dict[WorkKey, ResultT | Ended] = {}
        """Results that came before their turn."""
        self._sealed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, QuarterdeckError):
            self.cancel(error.what)
        else:
            self.cancel("whoever asked has gone" if error is not None else "no more of it is wanted")

    def cancel(self, reason: str) -> None:
        """Ends the query if it has not ended; again is fine."""
        self._handle.close(reason)
        for result in self._early.values():
            self._handle.discard(result)
        self._early.clear()

    async def results(self) -> AsyncGenerator[tuple[WorkKey, ResultT]]:
        """Each result once; raises `QuarterdeckError` when the query has failed or was canceled. A result is the
        reader's from then on, to release. Of a work that leaves nothing, `ends` tells."""
        self._submit()
        while self._order:
            key, end = await self._next()
            if isinstance(end, Ended):
                raise TypeError(f"work {key} leaves nothing: it has no result to be read")
            yield key, end

    async def ends(self) -> AsyncGenerator[tuple[WorkKey, ResultT | Ended]]:
        """The same for works of which some leave nothing, or all."""
        self._submit()
        while self._order:
            yield await self._next()

    async def _next(self) -> tuple[WorkKey, ResultT | Ended]:
        key = next(iter(self._order))
        while key not in self._early:
            won = await self._handle.next_result()
            if won is None:
                raise _as_error(self._handle)
            done, end = won
            self._early[done] = end
            self._results += 1
            self._results_bytes += 0 if isinstance(end, Ended) else self._size_of(end)
        del self._order[key]
        self._submit()  # may raise, and then the result must be found where unread ones are
        return key, self._early.pop(key)

    def _submit(self) -> None:
        room = self._window.works(self._results, self._results_bytes)
        while not self._sealed and len(self._order) < room:
            spec = next(self._specs, None)
            if spec is None:
                self._sealed = True
                self._handle.seal()
                return
            self._order[spec.key] = None
            self._handle.submit(spec)
            if self._handle.refused:
                raise _as_error(self._handle)


def _as_error(handle: QueryHandle[ResultT]) -> QuarterdeckError:
    """Why there are no more results although more were due."""
    ended = handle.ended
    if handle.refused and (ended is None or ended.error is None):
        refused = handle.refused[0]
        return QuarterdeckError(
            ErrorCode.INTERNAL, f"work {refused.key} was not taken", refused.reason, "please report this"
        )
    assert ended is not None
    error = ended.error or WorkError(ErrorCode.INTERNAL, "the query ended before its works did", retryable=False)
    what = f"query {ended.query_id} {'was canceled' if ended.outcome is ef.Outcome.CANCELED else 'failed'}"
    code = ErrorCode(error.code) if error.code in set(ErrorCode) else ErrorCode.WORK_FAILED
    return QuarterdeckError(code, what, error.message, _NEXT_STEP[code], retryable=error.retryable)


_NEXT_STEP = {
    ErrorCode.INVALID_ARGUMENT: "asking again will not help",
    ErrorCode.NOT_FOUND: "check that it is there and that the workers may read it",
    ErrorCode.UNAUTHENTICATED: "send the crew's token",
    ErrorCode.PERMISSION_DENIED: "ask for what source_roots allows",
    ErrorCode.NO_WORKER: "start a worker, or ask again when one has joined",
    ErrorCode.ATTEMPTS_EXHAUSTED: "look at the workers' logs for this query, then ask again",
    ErrorCode.QUARANTINED: "see in their logs what ended them; ask for less, or again if it was not this query",
    ErrorCode.WORK_FAILED: "correct the query or the data; asking again will not help",
    ErrorCode.DEADLINE_EXCEEDED: "ask for less, or allow more time",
    ErrorCode.CANCELED: "ask again if it is still wanted",
    ErrorCode.RESOURCE_EXHAUSTED: "ask for less, or give the workers more room",
    ErrorCode.PROTOCOL: "run the same release everywhere",
    ErrorCode.DEPOSED: "ask again; another coordinator leads now",
    ErrorCode.UNAVAILABLE: "ask again",
    ErrorCode.INTERNAL: "please report this with the logs of the query",
}
