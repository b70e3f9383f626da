"""The pantry's parts: jars are declared and withdrawn over HTTP, and a worker tells which it has."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.model import GroupId, HeldKind, ThingId, ThingSpec
from quarterdeck.crew.declared.holding import Held, HeldKindOffer
from tests.e2e.pantry.capability import JAR


class PantryOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        assert host.declarations is not None
        self._declarations = host.declarations

    def routers(self) -> Sequence[APIRouter]:
        router = APIRouter(prefix="/v1/jars")
        router.get("")(self._all)
        router.post("/{shelf}")(self._declare)
        router.post("/{shelf}/withdraw")(self._withdraw)
        return [router]

    async def _all(self) -> dict[str, dict[str, Any]]:
        return {
            thing.spec.thing_id: {
                "state": thing.state,
                "worker": thing.worker_id,
                "why": thing.error.message if thing.error else "",
            }
            for thing in await self._declarations.things()
        }

    async def _declare(self, shelf: str, content: str, jars: int = 1, worker: str = "") -> None:
        pinned_to = WorkerId(worker) if worker else None
        await self._declarations.declare(
            *(
                ThingSpec(ThingId(f"{shelf}.{number}"), GroupId(shelf), JAR, content.encode(), pinned_to=pinned_to)
                for number in range(jars)
            )
        )

    async def _withdraw(self, shelf: str) -> bool:
        return await self._declarations.withdraw(GroupId(shelf))


class PantryOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        del host
        self._jars: dict[str, str] = {}

    def holders(self) -> Mapping[HeldKind, HeldKindOffer]:
        return {JAR: HeldKindOffer(self, threads=1, memory_bytes=10_000)}

    def routers(self) -> Sequence[APIRouter]:
        router = APIRouter(prefix="/v1/jars")
        router.get("")(self._all)
        return [router]

    async def _all(self) -> dict[str, str]:
        return self._jars

    async def acquire(self, held: Held) -> None:
        content = await held.run_in_thread(held.spec.payload.decode)
        held.reserve(len(content))
        if content == "glass":
            raise QuarterdeckError(ErrorCode.WORK_FAILED, "the jar", "there is glass in it", "throw it away")
        self._jars[str(held.held_id)] = content

    async def release(self, held: Held) -> None:
        self._jars.pop(str(held.held_id), None)
