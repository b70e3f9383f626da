"""What a worker puts aside to make lines of what it found."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.capability.worker import WorkerHost
from quarterdeck.search import on_worker
from quarterdeck.search.engine.parts import part_schema
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.model import Order, SearchSpec
from quarterdeck.search.on_worker import SearchOnWorker
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.disk import DiskBudget, DiskLimits

arrow: Any = _pyarrow


def test_it_is_counted_and_what_a_process_left_that_was_killed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_worker, "_LINES_MEMORY_BYTES", 100)
    left = tmp_path / "searches" / "search-left" / "0.arrow"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(1000))
    budget = DiskBudget(tmp_path, DiskLimits(1 << 20))
    host = SimpleNamespace(
        settings=SimpleNamespace(slots=1, duckdb_memory_bytes=1 << 26),
        storage=SimpleNamespace(budget=budget, objects=None, cache=None),
        folder=DataFolder(tmp_path),
    )
    part = SearchOnWorker(cast("WorkerHost", host))
    try:
        assert not left.exists()
        spec = SearchSpec("| sort id", 0, Order.TIME, "ts")
        schema = part_schema(plan_search(spec))
        rows = [dict.fromkeys(schema.names) | {"line": "x" * 100} for _ in range(10)]
        gatherer = part._make_gatherer(spec)  # pyright: ignore[reportPrivateUsage]
        list(gatherer.add(0, [arrow.RecordBatch.from_pylist(rows, schema)]))
        assert budget.figures().temporary_bytes > 0
        gatherer.close()
        assert budget.figures().temporary_bytes == 0
        assert list((tmp_path / "searches").iterdir()) == []
    finally:
        part.close()
