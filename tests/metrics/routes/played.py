"""A coordinator whose worker is played: it takes all work, and is never done with any.

The catalog and its samples are real.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from quarterdeck.core.ids import CoordinatorId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.messages import AssignWork, CancelQuery, WorkAccepted, WorkCanceled
from quarterdeck.core.workcoord.model import Artifact, AttemptId
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.service import MetricsService, QueryOptions
from quarterdeck.metrics.stream_routes import stream_router
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from tests.crew.played import PlayedLink, register_with
from tests.metrics.routes import samples


class Port:
    """The coordinator, and its worker."""

    def __init__(self, lake: samples.LakeFolder, options: QueryOptions, heartbeat_s: float) -> None:
        self.link = PlayedLink("w0")
        self.running: set[AttemptId] = set()
        self.canceled: list[str] = []
        """Queries that the worker was told to cancel."""
        clock, ids = MonotonicClock(), RandomIds()
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[FetchedArtifact] = CoordinatorDriver(
            self.machine, clock=clock, ids=ids, fetcher=self
        )
        self.database = ThreadedDatabase(open_database(str(lake.folder / "catalog.db"), (METRICS_SCHEMA,)))
        catalog = Catalog(self.database, str(lake.segments))
        self.queries = MetricsService(self.driver, catalog, ids, clock, Timelines(clock), options)
        self.queries.warmed.set()
        self.app = FastAPI()
        self.app.include_router(stream_router(self.queries, heartbeat_s))
        add_error_handlers(self.app)

    # As a fetcher, for whom there is nothing to do

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> FetchedArtifact:
        raise NotImplementedError

    def discard(self, result: FetchedArtifact) -> None:
        raise NotImplementedError

    # As a worker

    async def work(self) -> None:
        await register_with(self.link, credit=8)
        while True:
            for message in await self.link.hear():
                match message:
                    case AssignWork() as assignment:
                        self.running.add(assignment.attempt)
                        self.link.say(WorkAccepted(assignment.attempt))
                    case CancelQuery(query_id):
                        self.canceled.append(query_id)
                        stopped = [attempt for attempt in self.running if attempt.key.query_id == query_id]
                        self.running.difference_update(stopped)
                        self.link.say(*(WorkCanceled(attempt) for attempt in stopped))
                    case _:
                        pass


@asynccontextmanager
async def port(folder: Path, options: QueryOptions, heartbeat_s: float, *, with_worker: bool) -> AsyncGenerator[Port]:
    """Runs until the end of the block. Then no query is left, neither here nor at the worker."""
    lake = samples.LakeFolder(folder)
    await asyncio.to_thread(lake.add, "gauges", samples.gauges())
    made = Port(lake, options, heartbeat_s)
    tasks = [asyncio.create_task(made.driver.run())]
    if with_worker:
        tasks += [asyncio.create_task(made.driver.serve(made.link)), asyncio.create_task(made.work())]
    try:
        yield made
        assert list(made.machine.ledger.queries()) == []
        assert made.driver.left_over() == []
        assert made.queries.open_answers.count == made.queries.admission.running == made.queries.admission.depth == 0
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        made.queries.end()
        await made.database.close()
