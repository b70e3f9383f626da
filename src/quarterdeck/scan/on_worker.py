"""Scans in a worker."""

from collections.abc import Mapping
from typing import Final

from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.crew.executors import KindExecutor
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.scan.executor import ScanExecutor
from quarterdeck.scan.model import SCAN

_IDLE_DATABASES: Final = 2
"""Of each engine's process. One serves who asks about the same files again; there is a process for each slot."""


class ScansOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        settings = host.settings
        limits = EngineLimits(
            threads=settings.duckdb_threads,
            memory_limit_bytes=settings.duckdb_memory_bytes,
            idle_databases=_IDLE_DATABASES,
        )
        self._scanner = ContainedScanner(limits, at_once=settings.slots)
        self._executor = ScanExecutor(self._scanner, host.storage.cache, host.observe)

    def executors(self) -> Mapping[WorkKind, KindExecutor]:
        return {SCAN: self._executor}

    def close(self) -> None:
        self._scanner.close()
