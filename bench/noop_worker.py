"""A worker whose work is to do nothing: the process of `quarterdeck worker`, with an executor that writes one row."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.capability import Capability
from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.config import WorkerSettings
from quarterdeck.core.named import Named
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.executors import Execution, KindExecutor
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import leave, run_process
from quarterdeck.scan.model import SCAN
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.telemetry.logs import configure
from quarterdeck.worker.process import Worker

_arrow: Any = pyarrow
ROW: Any = _arrow.record_batch({"answer": [42]})


class NoOp:
    """All that a work costs apart from its computation: a thread, a file, an announcement."""

    async def warm_up(self) -> None:
        pass

    async def execute(self, execution: Execution) -> Artifact:
        return await execution.write(_write_row)


def _write_row(sink: RowSink) -> None:
    sink.open(ROW.schema, None)
    sink.write(ROW)


class NothingOnWorker(WorkerPart):
    def __init__(self, _host: WorkerHost) -> None:
        self._executor = NoOp()

    def executors(self) -> Mapping[WorkKind, KindExecutor]:
        return {KIND: self._executor}


KIND: Final = SCAN
NOTHING: Final = Capability(name="nothing", kinds=(KIND,), on_worker=Named("__main__:NothingOnWorker"))


def main() -> NoReturn:
    control, data_dir, lifeline = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    configure("json", "warning")
    settings = WorkerSettings(
        join=(control,), data_dir=data_dir, slots=1, queue_places=63, kinds=(KIND,), artifact_linger_s=0.5
    )

    guard = Guard(None, None, insecure=False)
    with DataFolder(settings.data_dir) as folder:
        code = run_process(Worker(settings, folder, guard, [NOTHING]).run, lifeline)
    leave(code)


if __name__ == "__main__":
    main()
