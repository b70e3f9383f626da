"""A question to an engine that scans, in the form in which it goes to the engine's process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from quarterdeck.engines.scan_file import PathColumn, ScanFile
from quarterdeck.engines.sql_plan import PartChecks, decode_checks


@dataclass(frozen=True, slots=True)
class ScanQuestion:
    """One SELECT over some files."""

    sql: str
    files: tuple[ScanFile, ...]
    with_filename: bool
    path_columns: tuple[PathColumn, ...] = ()
    part: PartChecks | None = None
    """What it is a part of, if it is one: its rows are then told in types that lose nothing."""

    def encode(self) -> bytes:
        files = [(str(file.path), file.name, file.values) for file in self.files]
        columns = [(column.name, column.kind) for column in self.path_columns]
        part = None if self.part is None else asdict(self.part)
        return json.dumps([self.sql, files, self.with_filename, columns, part]).encode()

    @classmethod
    def decode(cls, payload: bytes) -> "ScanQuestion":
        sql, files, with_filename, columns, part = json.loads(payload)
        return cls(
            sql,
            tuple(ScanFile(Path(path), name, tuple(values)) for path, name, values in files),
            with_filename,
            tuple(PathColumn(name, kind) for name, kind in columns),
            None if part is None else decode_checks(part),
        )
