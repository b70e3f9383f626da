"""The worker's side of a scan: files through the cache, SQL in an engine's process, rows as they come.

The files stay pinned until the last row is written.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import Artifact, AttemptId
from quarterdeck.crew.artifacts.writer import RowSink
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.crew.executors import Execution
from quarterdeck.crew.inputs import opened_files
from quarterdeck.engines.contained import ContainedRows
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.engine_wire import RecordBatch
from quarterdeck.engines.result_shape import insist_names, insist_writable
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.scan.model import ScanTask, decode_task
from quarterdeck.stores.parquet_cache import ParquetCache

_arrow: Any = pyarrow
_OPENED: Final = 0.5
"""The progress of a scan whose files are all here: how long it still takes nobody knows."""
MAX_ROW_BYTES: Final = 64 * 1024 * 1024
"""Of one row in memory. Lines of JSON take up to six times as much, and the memory for that again for each step."""


class ScanExecutor:
    """Implements `crew.executors.KindExecutor` for scans."""

    def __init__(
        self,
        scanner: ContainedScanner,
        cache: ParquetCache,
        on_query: Callable[[AttemptId, float, Outcome], None] | None = None,
    ) -> None:
        """`on_query` gets the seconds that the engine had a work, and how it ended; on the loop."""
        self._scanner = scanner
        self._cache = cache
        self._on_query = on_query

    async def warm_up(self) -> None:
        await asyncio.to_thread(self._warm_up)

    async def execute(self, execution: Execution) -> Artifact:
        task = decode_task(execution.spec.payload)

        def tell(opened: int) -> None:
            execution.progress(_OPENED * opened / len(task.files))

        async with opened_files(self._cache, task.files, on_opened=tell) as paths:
            found = zip(paths, task.files, task.values or [()] * len(paths), strict=True)
            files = [ScanFile(path.absolute(), ref.url, values) for path, ref, values in found if path is not None]
            began_s = time.monotonic()
            outcome = Outcome.FAILED
            try:
                artifact = await self._scan(task, files, execution)
                outcome = Outcome.SUCCEEDED
            except asyncio.CancelledError:
                outcome = Outcome.CANCELED
                raise
            finally:
                if self._on_query is not None:
                    self._on_query(execution.attempt, time.monotonic() - began_s, outcome)
            return artifact

    def _warm_up(self) -> None:
        with self._scanner.scan("SELECT 1", (), CancelToken()) as rows:
            list(rows)
        self._scanner.warm_up()

    async def _scan(self, task: ScanTask, files: Sequence[ScanFile], execution: Execution) -> Artifact:
        try:
            return await execution.write(lambda sink: self._fill(task, files, sink, execution))
        except _arrow.ArrowNotImplementedError as error:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                "the result was not written",
                f"Parquet has no such type: {error}",
                "cast the column to another type in the SQL",
            ) from error

    # In a thread

    def _fill(self, task: ScanTask, files: Sequence[ScanFile], sink: RowSink, execution: Execution) -> None:
        with self._scanner.scan(
            task.sql,
            files,
            execution.token,
            with_filename=task.with_filename,
            path_columns=task.path_columns,
            part=task.part,
        ) as rows:
            self._write(task, rows, sink, execution)

    def _write(self, task: ScanTask, rows: ContainedRows, sink: RowSink, execution: Execution) -> None:
        insist_names(rows.schema.names)
        insist_writable(rows.schema)
        sink.open(rows.schema, task.ts_column)
        row_count = 0
        for batch in rows:
            row_count += batch.num_rows
            if task.max_rows is not None and row_count > task.max_rows:
                raise QuarterdeckError(
                    ErrorCode.RESOURCE_EXHAUSTED,
                    "the result was not written",
                    f"it has more than the {task.max_rows} rows that were allowed",
                    "ask for fewer rows, or allow more",
                    retryable=False,
                )
            _check_rows(batch)
            sink.write(batch)
            execution.progress(_OPENED + (1 - _OPENED) * rows.fraction)


def _check_rows(batch: RecordBatch) -> None:
    """Everybody on the way to the reader holds a row as a whole, and some of them several times."""
    left = [batch]
    while left:
        part = left.pop()
        if part.nbytes <= MAX_ROW_BYTES:
            continue
        if part.num_rows == 1:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                "the result was not written",
                f"a row has {part.nbytes:,} bytes, and may have {MAX_ROW_BYTES:,}",
                "make smaller values in the SQL: several rows instead of one long list or text",
            )
        half = part.num_rows // 2
        left += (part.slice(0, half), part.slice(half))
