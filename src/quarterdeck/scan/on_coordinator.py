"""Scans in a coordinator."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.crew.harvest import Window
from quarterdeck.engines.contained_merge import ContainedMerger
from quarterdeck.scan.merging import MergeLimits, PartMerging
from quarterdeck.scan.routes import scan_router
from quarterdeck.scan.service import ScanService
from quarterdeck.scan.settings import ScanSettings
from quarterdeck.web.front import Ask, curl

_SPOOL_SHARE: Final = 8
"""One query may hold this part of the spool for a reader that is slow."""
_SQL: Final = "select count(*) n from files"


class ScansOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        settings = host.settings.section(ScanSettings)
        spool_bytes = max(1, host.settings.spool_limit_bytes // _SPOOL_SHARE)
        self._roots = host.roots
        self._merger = ContainedMerger(
            at_once=settings.merges_at_once,
            memory_limit_bytes=settings.merge_memory_bytes,
            spill_bytes=settings.merge_disk_bytes,
            limits_named="scan.merge_memory_bytes and scan.merge_disk_bytes",
        )
        self._service = ScanService(
            host.driver,
            host.objects,
            host.ids,
            self._merger,
            PartMerging(self._merger, host.folder.folder("merge"), MergeLimits(settings.merges_at_once, spool_bytes)),
            clock=host.clock,
            window=Window(host.settings.window_works, spool_bytes),
            wait_limit_s=host.settings.wait_limit_s,
            at_once=settings.scans_at_once,
            timeout_s=settings.timeout_s,
            log=host.log,
        )

    def asks(self) -> Sequence[Ask]:
        body: dict[str, object] = {"sql": _SQL, "sources": ["/data/*.parquet"], "format": "csv"}
        return (
            Ask("SQL over Parquet files", f"quarterdeck scan '{_SQL}' 'data/*.parquet' --url {{url}}"),
            Ask("The same with curl", curl("/v1/scan", body)),
        )

    def routers(self) -> Sequence[APIRouter]:
        return (scan_router(self._service, self._roots),)

    async def open(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(asyncio.to_thread, self._merger.close)

    def scaling(self) -> Mapping[str, float]:
        admission = self._service.admission
        return {
            "scans_running": admission.running,
            "scans_queued": admission.depth,
            "oldest_scan_age_s": round(admission.oldest_s, 3),
        }

    def close(self) -> None:
        self._service.close()

    @property
    def is_busy(self) -> bool:
        return bool(self._service.open_answers.count)
