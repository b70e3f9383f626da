"""SQL over local Parquet files, as in `duckdb_scan`, in processes of their own: see `contained`.

A process that has just read the same files comes first: it has a database for them.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from quarterdeck.engines.contained import PATIENCE_S, ContainedEngine, ContainedRows
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.scan_question import ScanQuestion
from quarterdeck.engines.sql_plan import PartChecks
from quarterdeck.engines.stop_signal import StopSignal

_DUCKDB: Final = "quarterdeck.engines.scan_engine:ScanEngine"


class ContainedScanner(ContainedEngine):
    """Any number of threads may scan at once."""

    def __init__(
        self, limits: EngineLimits, *, at_once: int, engine: str = _DUCKDB, patience_s: float = PATIENCE_S
    ) -> None:
        super().__init__(engine, limits, at_once=at_once, patience_s=patience_s)

    @contextmanager
    def scan(
        self,
        sql: str,
        files: Sequence[ScanFile],
        stop: StopSignal,
        *,
        with_filename: bool = False,
        path_columns: Sequence[PathColumn] = (),
        part: PartChecks | None = None,
    ) -> Generator[ContainedRows]:
        """Runs it, and gives the rows to the block. What is wrong with the SQL or the files is a `QuarterdeckError`;
        what `stop.check` raises ends it when it is stopped."""
        key = (tuple(files), with_filename, tuple(path_columns))
        with self.asked(key, ScanQuestion(sql, *key, part).encode(), stop) as rows:
            yield rows
