"""A question to an engine that plans and merges, in the form in which it goes to the engine's process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from quarterdeck.engines.sql_plan import MergeOrder, decode_merge


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """How a SELECT over `files` is divided."""

    sql: str

    def encode(self) -> bytes:
        return json.dumps({"sql": self.sql}).encode()


@dataclass(frozen=True, slots=True)
class PruneQuestion:
    """Which files a SELECT can have rows of, by the values that their paths give them."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    values: tuple[tuple[str | None, ...], ...]
    """Of each file."""

    def encode(self) -> bytes:
        return json.dumps({"sql": self.sql, "columns": self.columns, "values": self.values}).encode()


@dataclass(frozen=True, slots=True)
class MergeQuestion:
    """One answer of the rows of parts."""

    order: MergeOrder
    paths: tuple[Path, ...]
    """Of the parts, Parquet files, in the order of the files that they are of."""
    folder: Path
    """For temporary files; empty."""

    def encode(self) -> bytes:
        paths = [str(path) for path in self.paths]
        return json.dumps({"order": asdict(self.order), "paths": paths, "folder": str(self.folder)}).encode()


Question = PlanQuestion | PruneQuestion | MergeQuestion


def decode_question(payload: bytes) -> Question:
    found = json.loads(payload)
    if "order" in found:
        paths = tuple(map(Path, found["paths"]))
        return MergeQuestion(decode_merge(found["order"]), paths, Path(found["folder"]))
    if "columns" in found:
        columns = tuple((name, kind) for name, kind in found["columns"])
        return PruneQuestion(found["sql"], columns, tuple(tuple(values) for values in found["values"]))
    return PlanQuestion(found["sql"])
