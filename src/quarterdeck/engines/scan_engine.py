"""Scans in an engine's process: implements `engine_child.Engine`."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from quarterdeck.engines.duckdb_scan import DuckDbScanner, RecordBatch, Rows, Schema
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_question import ScanQuestion
from quarterdeck.engines.stop_signal import StopSignal


class ScanAnswer:
    def __init__(self, rows: Rows) -> None:
        self.fraction = 0.0
        self._rows = rows

    @property
    def schema(self) -> Schema:
        return self._rows.schema

    def __iter__(self) -> Iterator[RecordBatch]:
        for batch in self._rows:
            self.fraction = self._rows.fraction
            yield batch
        self.fraction = self._rows.fraction

    def last(self) -> bytes:
        return b""


class ScanEngine:
    """For one thread."""

    scanner = DuckDbScanner

    def __init__(self, limits: EngineLimits) -> None:
        self._scanner = self.scanner(limits)

    @classmethod
    def load(cls) -> None:
        """Importing this module has loaded DuckDB."""

    def warm_up(self) -> None:
        self._scanner.warm_up()

    @contextmanager
    def answer(self, question: memoryview, stop: StopSignal) -> Generator[ScanAnswer]:
        asked = ScanQuestion.decode(bytes(question))
        with self._scanner.scan(
            asked.sql,
            asked.files,
            stop,
            with_filename=asked.with_filename,
            path_columns=asked.path_columns,
            part=asked.part,
        ) as rows:
            yield ScanAnswer(rows)
