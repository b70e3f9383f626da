"""What is asked of an engine that scans: the form in which it goes to the engine's process."""

import json
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.engines.scan_file import ScanFile


@dataclass(frozen=True, slots=True)
class ScanQuestion:
    """One SELECT over some files."""

    sql: str
    files: tuple[ScanFile, ...]
    with_filename: bool

    def encode(self) -> bytes:
        files = [(str(file.path), file.name) for file in self.files]
        return json.dumps([self.sql, files, self.with_filename]).encode()

    @classmethod
    def decode(cls, payload: bytes) -> "ScanQuestion":
        sql, files, with_filename = json.loads(payload)
        return cls(sql, tuple(ScanFile(Path(path), name) for path, name in files), with_filename)
