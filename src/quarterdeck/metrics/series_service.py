"""Which series, label names and label values there are: from the catalog where it knows, else by works for the crew."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.clocks import RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import Harvest, Window
from quarterdeck.crew.query_log import AskedQuery
from quarterdeck.metrics.model import LEAF, METRICS_QUERY
from quarterdeck.metrics.planning import Selection, divide
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import LISTED_BYTES
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.service import MetricsService
from quarterdeck.metrics.tasks import SeriesTask, encode_task
from quarterdeck.metrics.transfer.series_list import SeriesList, read_series
from quarterdeck.metrics.universe import Universe, index_of
from quarterdeck.stores.threads import in_thread

_SHOWN: Final = 8
"""Selectors of a request, and matchers of each, that people see."""
_SHOWN_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """Series that match one of the selectors and have samples between two times; without selectors, all."""

    selectors: tuple[tuple[Matcher, ...], ...]
    start_ms: int
    end_ms: int
    tenant: str = DEFAULT_TENANT
    partial_allowed: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and what is missing from it."""

    values: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundSeries:
    """Series, sorted by their labels, and what is missing from them."""

    labels: tuple[Labels, ...]
    warnings: tuple[str, ...] = ()


class SeriesService:
    """Answers about labels. It shares the queries' line: at most so many run at once; and their memory: labels that
    workers send are on an account until `held` ends, which is when the answer has been sent."""

    def __init__(self, queries: MetricsService, driver: CoordinatorDriver[FetchedArtifact], ids: RandomIds) -> None:
        self._queries = queries
        self._driver = driver
        self._ids = ids

    async def label_names(self, request: SeriesRequest, held: ExitStack) -> Found:
        """Sorted."""
        if request.selectors:
            found = await self.series(request, held)
            return Found(await in_thread(lambda: _names(found)), found.warnings)
        universe = await self._queries.catalog.universe(request.tenant)
        names = await self._queries.over(universe, lambda: _known_names(universe, request))
        return Found(await in_thread(lambda: tuple(sorted(names))))

    async def label_values(self, name: str, request: SeriesRequest, held: ExitStack) -> Found:
        """Sorted."""
        if not request.selectors:
            universe = await self._queries.catalog.universe(request.tenant)
            values = await self._queries.over(universe, lambda: _known_values(universe, name, request))
            if values is not None:
                return Found(await in_thread(lambda: tuple(sorted(values))))
        found = await self.series(request, held)
        return Found(await in_thread(lambda: _values(found, name)), found.warnings)

    async def series(self, request: SeriesRequest, held: ExitStack) -> FoundSeries:
        """All that match, by works for the crew."""
        query_id = self._ids.query_id()
        with self._queries.log.asked(query_id, METRICS_QUERY, _shown(request), request.tenant) as asked:
            return await self._series(request, held, asked)

    async def _series(self, request: SeriesRequest, held: ExitStack, asked: AskedQuery) -> FoundSeries:
        options, query_id = self._queries.options, asked.query_id
        async with self._queries.admission.admitted(options.timeout_s):
            asked.begin()
            universe = await self._queries.catalog.universe(request.tenant)
            # In a thread: it takes a moment for each segment and each selector.
            specs = await self._queries.in_thread(lambda: self._specs(query_id, universe, request))
            if not specs:
                return FoundSeries(())
            share = held.enter_context(self._queries.share_of_this_task(query_id, "a list of series"))
            rows = 0
            lists: list[SeriesList] = []
            window = Window(len(specs), options.result_bytes, first_works=len(specs))
            async with Harvest(
                self._driver,
                query_id,
                specs,
                window=window,
                size_of=lambda fetched: fetched.metadata.size_bytes,
                wait_limit_s=options.wait_limit_s,
            ) as harvest:
                async for _, artifact in harvest.results():
                    rows += artifact.metadata.row_count
                    share.draw(rows * LISTED_BYTES)
                    lists.append(await in_thread(lambda artifact=artifact: _read(artifact)))
            return await in_thread(lambda: _united(lists, options.max_series))

    def _specs(self, query_id: QueryId, universe: Universe, request: SeriesRequest) -> list[WorkSpec]:
        selectors = request.selectors or ((),)
        selections = [Selection(matchers, request.start_ms, request.end_ms) for matchers in selectors]
        division = divide(universe, selections, self._queries.options.work_rows)
        specs: list[WorkSpec] = []
        for number, work in enumerate(division.works):
            key = WorkKey(query_id, LeafId("series"), WorkId(f"{query_id}/{number}"))
            task = SeriesTask(
                selectors,
                request.start_ms,
                request.end_ms,
                work.segments,
                work.part,
                self._queries.options.max_series,
                request.partial_allowed,
            )
            specs.append(
                WorkSpec(
                    key,
                    LEAF,
                    encode_task(task),
                    affinity_key=f"{request.tenant}/{work.home}",
                    tenant=self._queries.crew_of(request.tenant),
                )
            )
        return specs


def _shown(request: SeriesRequest) -> str:
    """For people: the beginning of what may be very long.

    >>> from quarterdeck.metrics.promql.syntax.ast import MatchOp
    >>> _shown(SeriesRequest(((Matcher("job", MatchOp.EQUAL, "api"),),), 0, 0))
    'series {job="api"}'
    """
    shown: list[str] = []
    for matchers in request.selectors[:_SHOWN]:
        told = (
            f"{one.name[:_SHOWN_CHARACTERS]}{one.op}{quote(one.value[:_SHOWN_CHARACTERS])}" for one in matchers[:_SHOWN]
        )
        shown.append(f"{{{','.join(told)}{',…' if len(matchers) > _SHOWN else ''}}}")
    return f"series {', '.join(shown)}{', …' if len(request.selectors) > _SHOWN else ''}"


def _known_names(universe: Universe, request: SeriesRequest) -> set[str]:
    found: set[str] = set()
    for segment in universe.within(request.start_ms, request.end_ms):
        index = index_of(segment)
        found.update(index.values)
        if any(index.metrics):
            found.add(METRIC_NAME)
    return found


def _known_values(universe: Universe, name: str, request: SeriesRequest) -> set[str] | None:
    """What the catalog knows; None where a segment has too many values to list."""
    found: set[str] = set()
    for segment in universe.within(request.start_ms, request.end_ms):
        index = index_of(segment)
        if name == METRIC_NAME:
            found.update(metric for metric in index.metrics if metric)
            continue
        values = index.values.get(name, frozenset())
        if values is None:
            return None
        found.update(values)
    return found


def _names(found: FoundSeries) -> tuple[str, ...]:
    return tuple(sorted({name for labels in found.labels for name, _ in labels}))


def _values(found: FoundSeries, name: str) -> tuple[str, ...]:
    return tuple(sorted({value for labels in found.labels for key, value in labels if key == name}))


def _read(artifact: FetchedArtifact) -> SeriesList:
    try:
        return read_series(artifact.read_batches())
    finally:
        artifact.release()


def _united(lists: Sequence[SeriesList], max_series: int) -> FoundSeries:
    labels = {one for some in lists for one in some.labels}
    if len(labels) > max_series:
        raise LimitExceeded(
            f"there are more than {max_series:,} such series", "use narrower selectors or a shorter range"
        )
    missing = {line for some in lists for line in str(some.report.get("unreadable", "")).splitlines()}
    warnings = tuple(f"the answer is partial: {line}" for line in sorted(missing))
    return FoundSeries(tuple(sorted(labels)), warnings)
