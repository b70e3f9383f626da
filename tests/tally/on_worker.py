"""In a worker: it counts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.executors import Execution, KindExecutor
from tests.tally.model import TALLY, count_words
from tests.tally.settings import CountingSettings

_arrow: Any = pyarrow
_ROWS: Final = _arrow.schema([("words", _arrow.int64())])


class TallyOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        self._settings = host.settings.section(CountingSettings)
        self._counter = WordCounter(self._settings)

    def executors(self) -> Mapping[WorkKind, KindExecutor]:
        return {TALLY: self._counter}

    def missing(self) -> Sequence[str]:
        return () if self._settings.is_open else ("the tally is closed",)

    def scaling(self) -> Mapping[str, float]:
        return {"texts_counted": self._counter.texts}


class WordCounter:
    """Implements `crew.executors.KindExecutor`."""

    def __init__(self, settings: CountingSettings) -> None:
        self._settings = settings
        self.texts = 0

    async def warm_up(self) -> None:
        """Nothing takes time."""

    async def execute(self, execution: Execution) -> Artifact:
        words = count_words(execution.spec.payload.decode(), self._settings.least_letters)

        def fill(sink: RowSink) -> None:
            sink.open(_ROWS, None)
            sink.write(_arrow.record_batch([[words]], schema=_ROWS))

        artifact = await execution.write(fill)
        self.texts += 1
        return artifact
