"""The ledger's part of a coordinator: entries over HTTP."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from sqlalchemy import insert, select

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence
from quarterdeck.stores.database.fences.checked import DeposedError
from tests.e2e.ledger.tables import entries

_LOOK_S = 0.01


def _wait_at(gate: Path) -> None:
    gate.with_name(f"{gate.name}.decided").touch()
    while not gate.exists():
        time.sleep(_LOOK_S)


class LedgerOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        assert host.leadership is not None
        self._leadership = host.leadership
        self._database = host.database
        self._changes: list[Fence | None] = []
        self._leadership.follow(self._changes.append)

    def routers(self) -> Sequence[APIRouter]:
        router = APIRouter(prefix="/v1/ledger")
        router.get("")(self._all)
        router.get("/changes")(self._all_changes)
        router.post("/{note}")(self._write)
        return [router]

    async def _all(self) -> list[dict[str, Any]]:
        statement = select(entries.c.note, entries.c.fence).order_by(entries.c.entry_id)
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return [{"note": row.note, "fence": row.fence} for row in rows]

    async def _all_changes(self) -> list[Fence | None]:
        return self._changes

    async def _write(self, note: str, gate: str = "") -> dict[str, int]:
        """With a gate it decides to write, says so in a file, and writes when another file is there."""
        fence = self._leadership.fence
        if fence is None:
            raise QuarterdeckError(ErrorCode.UNAVAILABLE, "nothing was written", "another leads", "ask that one")
        if gate:
            await asyncio.to_thread(_wait_at, Path(gate))
        entry = insert(entries).values(note=note, fence=fence)
        try:
            await self._database.fenced(fence, lambda connection: connection.execute(entry))
        except DeposedError as error:
            self._leadership.doubt(error.highest)
            raise
        return {"fence": fence}
