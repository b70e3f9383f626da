"""In a coordinator: the route, the works, and the table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import Connection, func, insert, select

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.crew.harvest import Harvest, Window
from quarterdeck.http.tenants import AskingTenant
from quarterdeck.web.front import Ask, curl
from tests.tally.metering import on_coordinator
from tests.tally.model import TALLY, TALLY_QUERY
from tests.tally.settings import TallySettings
from tests.tally.tables import tallies

_ONE: Final = Window(1, 1)


class Text(BaseModel):
    text: str


class TallyOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        self._host = host
        self._settings = host.settings.section(TallySettings)
        self._metrics = on_coordinator(host.families)
        self._running = 0

    def asks(self) -> Sequence[Ask]:
        return (Ask("The words of a text", curl("/v1/tally", {"text": "how many words"})),)

    def routers(self) -> Sequence[APIRouter]:
        router = APIRouter(prefix="/v1", tags=["tally"])

        @router.post("/tally")
        async def tally(text: Text, tenant: AskingTenant) -> dict[str, int]:
            """Counts the words of a text, and those of all texts."""
            return await self._tally(text.text, tenant)

        return (router,)

    def missing(self) -> Sequence[str]:
        return () if self._settings.is_open else ("the tally is closed",)

    def scaling(self) -> Mapping[str, float]:
        return {"tallies_running": self._running}

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    async def _tally(self, text: str, tenant: str) -> dict[str, int]:
        if len(text) > self._settings.most_characters:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the words were not counted",
                f"the text has {len(text)} characters",
                f"send at most {self._settings.most_characters}, or raise tally.most_characters",
            )
        query_id = self._host.ids.query_id()
        self._running += 1
        try:
            with self._host.log.asked(query_id, TALLY_QUERY, text, tenant) as asked:
                asked.begin()
                words = await self._count(query_id, text, tenant)
                self._metrics.words.inc(words)
                return {"words": words, "words_of_all": await self._host.database.run(_remembering(query_id, words))}
        finally:
            self._running -= 1

    async def _count(self, query_id: QueryId, text: str, tenant: str) -> int:
        host = self._host
        key = WorkKey(query_id, LeafId("tally"), WorkId(f"{query_id}/0"))
        spec = WorkSpec(key, TALLY, text.encode(), tenant=host.driver.crew_of(tenant, TALLY))
        harvest = Harvest(
            host.driver,
            query_id,
            [spec],
            window=_ONE,
            size_of=lambda fetched: fetched.metadata.size_bytes,
            wait_limit_s=host.settings.wait_limit_s,
        )
        words = 0
        async with harvest:
            async for _, fetched in harvest.results():
                try:
                    batches: Sequence[Any] = list(fetched.read_batches())
                    words = sum(batch.column("words")[0].as_py() for batch in batches)
                finally:
                    fetched.release()
        return words


def _remembering(query_id: QueryId, words: int) -> Callable[[Connection], int]:
    def remember(connection: Connection) -> int:
        connection.execute(insert(tallies).values(query_id=query_id, words=words))
        return int(connection.execute(select(func.sum(tallies.c.words))).scalar_one())

    return remember
