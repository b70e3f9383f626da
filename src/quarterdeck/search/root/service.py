"""Log searches at their root: asked for here, planned, run with recruited workers or alone, and ended however they end.

Whoever was recruited is released in any case: by a search that ends, fails, is canceled, or whose process is told to
stop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.crew.admission import Admission
from quarterdeck.crew.query_log import AskedQuery, QueryKind, QueryLog, shown
from quarterdeck.crew.time_limit import time_limit
from quarterdeck.http.gate import Caller
from quarterdeck.http.watched import OpenAnswers
from quarterdeck.search.machine.search import SearchConfig
from quarterdeck.search.metering import SearchMetrics, SearchOutcome
from quarterdeck.search.model import SearchSpec
from quarterdeck.search.root.driver import Ports
from quarterdeck.search.root.planning import Sampling, SearchPlan, SearchRequest, plan, sources_of
from quarterdeck.search.root.running import Gatherer, RunningSearch, Status
from quarterdeck.search.root.search_documents import Outcome, figures_of, search_document
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.source_roots import Border, SourceRoots
from quarterdeck.stores.threads import in_thread
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.masking import masked_text
from quarterdeck.telemetry.traces import span

_log = get_logger(__name__)

_SEARCH: Final = QueryKind("search")


class QueryIds(Protocol):
    def query_id(self) -> QueryId: ...


@dataclass(frozen=True, slots=True)
class SearchOptions:
    timeout_s: float = 600.0
    """A search that asks for more gets this."""
    at_once: int = 16
    """Searches that run at the same time; the others wait in line."""
    ahead: int = 1
    """Chunks that a worker has beyond its slots, while there are many."""
    alone_at_once: int = 1
    """Chunks that a search without workers searches at the same time, in this process."""
    has_recruiters: bool = True
    running_bytes: int = 4 * 1024**3
    """Of files that one search has given to workers."""
    held_bytes: int = 256 * 1024**2
    """Of answers of chunks that one search holds in memory."""


class SearchTooLateError(QuarterdeckError):
    def __init__(self, limit_s: float) -> None:
        super().__init__(
            ErrorCode.DEADLINE_EXCEEDED,
            "the search was canceled",
            f"it had {limit_s:g} s and was not finished",
            "allow more time, or search less",
        )
        self.args = (limit_s,)  # from which copy and pickle make it anew


class SearchService:
    def __init__(
        self,
        objects: ObjectStores,
        ports: Ports,
        sampling: Sampling,
        make_gathering: Callable[[SearchSpec], Gatherer],
        ids: QueryIds,
        now_us: Callable[[], int],
        options: SearchOptions,
        metrics: SearchMetrics | None = None,
        log: QueryLog | None = None,
    ) -> None:
        """`make_gathering` may block. `now_us` is the time of day, since 1970 in UTC. `log` remembers the queries of
        the process."""
        self.log: Final = log or QueryLog(ports.clock)
        self._objects = objects
        self._ports = ports
        self._sampling = sampling
        self._make_gathering = make_gathering
        self._ids = ids
        self._now_us = now_us
        self._options = options
        self._metrics = metrics
        self._ending: Final[set[asyncio.Task[None]]] = set()
        self.admission: Final = Admission(
            options.at_once, ports.clock, what="search", setting="search.searches_at_once"
        )
        self.open_answers: Final = OpenAnswers()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is open, or workers are still being given back."""
        return bool(self.open_answers.count or self._ending)

    def close(self) -> None:
        """No new searches: the process is on its way out. What runs or waits in line goes on."""
        self.admission.close()

    async def wait_quiet(self) -> None:
        """Until all that ended searches have left behind is gone: workers are given back, files deleted."""
        while self._ending:
            await asyncio.wait(self._ending)

    async def end(self) -> None:
        """To be called when no search is open any more, and before what it needs is closed."""
        self.close()
        await self.wait_quiet()

    async def insist_within(
        self, roots: SourceRoots, caller: Caller, request: SearchRequest, tenant: str
    ) -> Border | None:
        """The border for what is found below sources. One that the caller may not name is refused: people see it."""
        try:
            return await roots.insist_for(caller, sources_of(request), self._objects)
        except QuarterdeckError as refusal:
            self._asked(request, tenant, self.new_query_id()).end(refusal)
            raise

    def told(self, tenant: str | None = None) -> list[Mapping[str, object]]:
        """What people are told of the searches that were begun, those that run first; of one tenant, where named."""
        return self.log.details(_SEARCH, tenant)

    def told_of(self, query_id: QueryId, tenant: str | None = None) -> Mapping[str, object] | None:
        """What they are told of one, if it is the tenant's."""
        query = self.log.find(query_id, tenant)
        return query.details if query is not None and query.kind == _SEARCH else None

    def new_query_id(self) -> QueryId:
        """For one search: whoever tells it before the search is planned asks for it first."""
        return self._ids.query_id()

    def _asked(self, request: SearchRequest, tenant: str, query_id: QueryId) -> AskedQuery:
        """A search that is to be planned: people see it from now on."""
        return self.log.asked(query_id, _SEARCH, request.query, tenant)

    @asynccontextmanager
    async def opened(
        self,
        request: SearchRequest,
        border: Border | None = None,
        tenant: str = DEFAULT_TENANT,
        query_id: QueryId | None = None,
    ) -> AsyncGenerator[RunningSearch]:
        """As `_opened`; `tenant` is who asks, and whose workers search. `query_id` is a new one of ours."""
        with self._asked(request, tenant, query_id or self.new_query_id()) as asked:
            async with self._opened(request, border, asked) as running:
                yield running

    @asynccontextmanager
    async def _opened(
        self, request: SearchRequest, border: Border | None, asked: AskedQuery
    ) -> AsyncGenerator[RunningSearch]:
        """Plans it when its turn comes, and gives it to the block, which reads its events. Raises what is wrong with
        the request, and DEADLINE_EXCEEDED when its time is over, including waiting and reading. After the block it has
        ended, and is stopped if it has not."""
        limit_s = min(self._options.timeout_s, request.timeout_s or self._options.timeout_s)

        def late() -> QuarterdeckError:
            return SearchTooLateError(limit_s)

        async with self.admission.admitted(limit_s) as waited_s, time_limit(limit_s - waited_s, late) as limit:
            asked.begin()
            planned = await plan(request, self._objects, self._sampling, self._now_us(), border)
            async with self._running(planned, lambda: late() if limit.expired() else None, asked) as running:
                yield running

    @asynccontextmanager
    async def _running(
        self, planned: SearchPlan, lateness: Callable[[], QuarterdeckError | None], asked: AskedQuery
    ) -> AsyncGenerator[RunningSearch]:
        """`lateness` is the reason of a cancel, when it was that."""
        running, outcome, began_us = await self._begin(planned, asked), Outcome(), self._now_us()
        asked.watch(lambda: figures_of(running))
        asked.describe(lambda: search_document(running, asked.text, began_us, outcome))
        try:
            with span("search", query_id=running.query_id):
                yield running
            outcome.status = running.status if running.is_whole else Status.CANCELED
            if outcome.status is Status.PARTIAL:
                asked.partial(running.problems.named())
            elif outcome.status is Status.CANCELED:
                asked.end(asyncio.CancelledError())
        except QuarterdeckError as raised:
            outcome.status, outcome.error = Status.ERROR, raised
            raise
        except asyncio.CancelledError:
            outcome.error = lateness()
            outcome.status = Status.CANCELED if outcome.error is None else Status.ERROR
            raise
        except Exception:
            outcome.status = Status.ERROR
            raise
        finally:
            outcome.status = outcome.status or Status.CANCELED  # of a block that was closed
            self._tell(running, outcome.status, outcome.error)
            ending = asyncio.create_task(running.end(), name=f"end search {running.query_id}")
            self._ending.add(ending)
            ending.add_done_callback(self._ended)

    async def _begin(self, planned: SearchPlan, asked: AskedQuery) -> RunningSearch:
        options = self._options
        config = SearchConfig(
            max_workers=planned.request.max_workers if options.has_recruiters else 0,
            ahead=options.ahead,
            alone_at_once=options.alone_at_once,
            running_bytes=options.running_bytes,
            held_bytes=options.held_bytes,
        )
        made: list[Gatherer] = []
        try:
            await in_thread(lambda: made.append(self._make_gathering(planned.spec)))
            running = RunningSearch(asked.query_id, planned, config, self._ports, made[0], asked.tenant)
        except BaseException:
            for gathering in made:
                await in_thread(gathering.close)
            raise
        _log.info(
            "search begun",
            query_id=running.query_id,
            query=shown(planned.request.query),
            files=planned.files,
            chunks=len(planned.chunks),
            size_bytes=planned.size_bytes,
        )
        return running

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._ending.discard(ending)
        error = None if ending.cancelled() else ending.exception()
        if error is not None:
            _log.error("the end of a search failed", exc_info=error)

    def _tell(self, running: RunningSearch, status: Status, error: QuarterdeckError | None) -> None:
        machine = running.driver.machine
        _log.info(
            "search ended",
            query_id=running.query_id,
            status=status.value,
            seconds=round(running.seconds, 3),
            matches=running.matches,
            rows=running.rows,
            lost=machine.lost,
            retried=machine.retried,
            reason=None if error is None else masked_text(error.message),
        )
        if self._metrics is not None:
            self._metrics.latency[SearchOutcome(status.value)].observe(running.seconds)
            self._metrics.searched_bytes.inc(running.searched_bytes)
            self._metrics.workers_lost.inc(machine.lost)
            self._metrics.chunks_retried.inc(machine.retried)
