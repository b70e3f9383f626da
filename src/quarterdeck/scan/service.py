"""Scans on the coordinator: sources become files, files become works, and results come back in the order of the files.

The answer is the one that DuckDB alone would give over all files: the works' rows, or what is merged from them; see
`division`. A client can also ask for the rows of each work as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.crew.admission import Admission
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.clocks import RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import Harvest, Window
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.query_log import AskedQuery, QueryKind, QueryLog
from quarterdeck.engines.sql_way import Way
from quarterdeck.http.gate import Caller
from quarterdeck.http.watched import OpenAnswers
from quarterdeck.scan.division import Divider, Division, Planner
from quarterdeck.scan.merging import PartMerging
from quarterdeck.scan.model import SCAN, ScanRequest, encode_task
from quarterdeck.scan.parquet_sources import parquet_files
from quarterdeck.scan.row_window import RowWindow
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.source_roots import Border, SourceRoots

_SCAN: Final = QueryKind("scan")
_LEAF: Final = LeafId("scan")


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What will be done for a request."""

    query_id: QueryId
    request: ScanRequest
    division: Division
    """The files of each work, and how their rows become the answer. A request without sources is one work without
    files."""
    tenant: str
    """Whose workers do it."""

    @property
    def groups(self) -> tuple[tuple[ObjectRef, ...], ...]:
        return tuple(tuple(file.ref for file in group) for group in self.division.groups)

    @property
    def files(self) -> int:
        return sum(map(len, self.groups))

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for group in self.groups for file in group)

    def window(self) -> "RowWindow | None":
        """Which of the works' rows are the answer, if not all of them are."""
        plan = self.division.plan
        return RowWindow(plan.offset, plan.limit) if plan is not None and plan.way is Way.FIRST else None

    def works(self) -> Iterator[WorkSpec]:
        for number, group in enumerate(self.division.groups):
            key = WorkKey(self.query_id, _LEAF, WorkId(f"{self.query_id}/{number}"))
            payload = encode_task(self.division.task(self.request, group))
            affinity = group[0].ref.url if group else ""
            yield WorkSpec(key, SCAN, payload, affinity_key=affinity, tenant=self.tenant)


class ScanService:
    def __init__(
        self,
        driver: CoordinatorDriver[FetchedArtifact],
        objects: ObjectStores,
        ids: RandomIds,
        planner: Planner,
        merging: PartMerging,
        *,
        clock: Clock,
        window: Window,
        wait_limit_s: float,
        at_once: int,
        timeout_s: float,
        log: QueryLog | None = None,
    ) -> None:
        """`at_once` scans run at a time, the others wait in line; none takes longer than `timeout_s`, waiting among
        it. `log` remembers the queries of the process."""
        self.log: Final = log or QueryLog(clock)
        self.admission: Final = Admission(at_once, clock, what="scan", setting="scan.scans_at_once")
        self.merging: Final = merging
        self._divider = Divider(planner)
        self._timeout_s = timeout_s
        self._driver = driver
        self._objects = objects
        self._ids = ids
        self._window = window
        self._wait_limit_s = wait_limit_s
        self.open_answers: Final = OpenAnswers()

    def close(self) -> None:
        """No new scans: the process is on its way out. Those in line keep their place."""
        self.admission.close()

    def allowed_s(self, wanted_s: float | None) -> float:
        """How long a scan may take whose client wants to wait so long, or does not say."""
        return self._timeout_s if wanted_s is None else min(wanted_s, self._timeout_s)

    def asked(self, request: ScanRequest, tenant: str) -> AskedQuery:
        """A scan that is to be planned: people see it from now on."""
        return self.log.asked(self._ids.query_id(), _SCAN, request.sql, tenant)

    async def insist_within(
        self, roots: SourceRoots, caller: Caller, request: ScanRequest, tenant: str
    ) -> Border | None:
        """The border for what is found below sources. One that the caller may not name is refused: people see it."""
        try:
            return await roots.insist_for(caller, request.sources, self._objects)
        except QuarterdeckError as refusal:
            self.asked(request, tenant).end(refusal)
            raise

    async def plan(
        self,
        request: ScanRequest,
        *,
        tenant: str,
        files_per_work: int | None = None,
        border: Border | None = None,
        query_id: QueryId | None = None,
    ) -> ScanPlan:
        """Finds the files, and divides them and the SQL. A source that finds nothing is an error that names it, and so
        is SQL that does not divide over many files."""
        found: dict[str, ObjectRef] = {}
        for source in request.sources:
            for file in parquet_files(source, await self._objects.find(source, border)):
                found[file.url] = file
        if request.sources:
            division = await self._divider.divided(request, list(found.values()), files_per_work)
        else:
            division = Division(((),), (), request.sql)
        return ScanPlan(query_id or self._ids.query_id(), request, division, self._driver.crew_of(tenant, SCAN))

    def harvest(self, plan: ScanPlan) -> Harvest[FetchedArtifact]:
        """Begins it. Leaving the harvest cancels what is left."""
        return Harvest(
            self._driver,
            plan.query_id,
            plan.works(),
            window=self._window,
            size_of=lambda fetched: fetched.metadata.size_bytes,
            wait_limit_s=self._wait_limit_s,
        )
