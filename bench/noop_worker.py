"""A worker whose work is to do nothing: the process of `quarterdeck worker`, with an executor that writes one row."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.config import WorkerSettings
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkKind
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.executors import Execution
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import leave, run_process
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.telemetry.logs import configure
from quarterdeck.telemetry.metrics import WorkerMetrics
from quarterdeck.worker.kinds import Kinds
from quarterdeck.worker.process import Worker
from quarterdeck.worker.storage import Storage

_arrow: Any = pyarrow
ROW: Any = _arrow.record_batch({"answer": [42]})


class NoOp:
    """All that a work costs apart from its computation: a thread, a file, an announcement."""

    def __init__(self, spool: ArtifactSpool) -> None:
        self._spool = spool

    async def warm_up(self) -> None:
        pass

    async def execute(self, execution: Execution) -> Artifact:
        return await execution.run_in_thread(lambda: self._write(execution.attempt))

    def release(self, attempt: AttemptId) -> None:
        self._spool.acknowledged(attempt)

    def forget(self, attempt: AttemptId) -> bool:
        return self._spool.forget(attempt)

    def drop(self, attempt: AttemptId) -> None:
        self._spool.drop(attempt)

    def _write(self, attempt: AttemptId) -> Artifact:
        writer = self._spool.create(attempt)
        writer.open(ROW.schema, None)
        writer.write(ROW)
        return writer.finish()


def main() -> NoReturn:
    control, data_dir, lifeline = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    configure("json", "warning")
    settings = WorkerSettings(join=(control,), data_dir=data_dir, slots=1, queue_places=63, artifact_linger_s=0.5)

    def kinds(_: WorkerSettings, storage: Storage, __: WorkerMetrics) -> Kinds:
        return Kinds({WorkKind.SEARCH: NoOp(storage.spool)}, lambda: None)

    guard = Guard(None, None, insecure=False)
    with DataFolder(settings.data_dir) as folder:
        code = run_process(Worker(settings, folder, guard, kinds).run, lifeline)
    leave(code)


if __name__ == "__main__":
    main()
