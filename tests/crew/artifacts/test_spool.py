"""A worker's artifacts: found by name, dropped, evicted, and none after a restart."""

from pathlib import Path

import pytest

from quarterdeck.crew.artifacts.pocket import SMALL_BYTES
from quarterdeck.crew.artifacts.spool import SpooledFile
from quarterdeck.stores.disk import Owner
from tests.crew.artifacts.harness import Depot, attempt_id, files_in, noise, rows


def _found(depot: Depot, url: str) -> SpooledFile | None:
    return depot.spool.find(url.rpartition("/")[2])


def test_a_file_is_found_by_its_exact_name_only(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    name = artifact.url.rpartition("/")[2]
    file = _found(depot, artifact.url)
    assert file is not None
    assert (file.size_bytes, file.checksum, file.attempt) == (artifact.size_bytes, artifact.checksum, attempt_id())
    assert file.path == depot.folder / name
    for other in (
        "",
        ".",
        "..",
        f"./{name}",
        f"{name}.part",
        name.upper(),
        f"{name}\0",
        f"x/../{name}",
        str(file.path),
    ):
        assert depot.spool.find(other) is None


def test_an_artifact_on_disk_counts_in_the_budget_until_it_is_dropped(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    assert depot.used_bytes() == artifact.size_bytes
    assert (len(depot.spool), depot.spool.memory_bytes) == (1, 0)
    depot.spool.drop(attempt_id())
    depot.spool.drop(attempt_id())
    assert _found(depot, artifact.url) is None
    assert files_in(depot.folder) == []
    assert (depot.used_bytes(), len(depot.spool)) == (0, 0)
    assert depot.lost == []


def test_a_small_artifact_stays_in_memory_and_a_large_one_does_not(tmp_path: Path) -> None:
    depot = Depot(tmp_path, memory_limit_bytes=2**20)
    small = depot.make(rows(0, 3))
    assert files_in(depot.folder) == []
    assert (depot.used_bytes(), depot.spool.memory_bytes, len(depot.spool)) == (0, small.size_bytes, 1)
    large = depot.make(noise(megabytes=1), attempt=attempt_id(2))
    assert large.size_bytes > SMALL_BYTES
    assert len(files_in(depot.folder)) == 1
    depot.spool.drop(attempt_id())
    assert (depot.spool.memory_bytes, len(depot.spool)) == (0, 1)
    assert _found(depot, small.url) is None


def test_only_what_is_in_memory_is_forgotten(tmp_path: Path) -> None:
    depot = Depot(tmp_path, memory_limit_bytes=2**20)
    small = depot.make(rows(0, 3))
    large = depot.make(noise(megabytes=1), attempt=attempt_id(2))
    assert depot.spool.forget(attempt_id())
    assert depot.spool.forget(attempt_id())  # it is gone: that is fine
    assert (depot.spool.memory_bytes, len(depot.spool)) == (0, 1)
    assert _found(depot, small.url) is None
    assert not depot.spool.forget(attempt_id(2))
    assert _found(depot, large.url) is not None


def test_when_memory_is_full_the_fetched_go_first_and_the_next_becomes_a_file(tmp_path: Path) -> None:
    size_bytes = Depot(tmp_path / "other").make(rows(0, 3)).size_bytes
    depot = Depot(tmp_path, memory_limit_bytes=2 * size_bytes)
    first, second, third = (depot.make(rows(0, 3), attempt=attempt_id(number)) for number in (1, 2, 3))
    assert len(files_in(depot.folder)) == 1
    assert depot.lost == []
    depot.spool.acknowledged(attempt_id(2))
    fourth = depot.make(rows(0, 3), attempt=attempt_id(4))
    assert depot.lost == [attempt_id(2)]
    assert [_found(depot, made.url) is not None for made in (first, second, third, fourth)] == [True, False, True, True]
    assert len(files_in(depot.folder)) == 1


def test_an_evicted_artifact_is_told_of_once_and_cannot_be_found(tmp_path: Path) -> None:
    size_bytes = Depot(tmp_path / "other").make(noise(megabytes=1)).size_bytes
    depot = Depot(tmp_path, limit_bytes=int(2.5 * size_bytes))
    old, older = (depot.make(noise(megabytes=1), attempt=attempt_id(number)) for number in (1, 2))
    depot.spool.acknowledged(attempt_id(2))
    depot.make(noise(megabytes=1), attempt=attempt_id(3))
    assert depot.lost == [attempt_id(2)]  # the younger one, which nobody waits for
    assert _found(depot, older.url) is None
    assert _found(depot, old.url) is not None
    depot.spool.acknowledged(attempt_id(2))
    depot.spool.drop(attempt_id(2))
    assert len(depot.spool) == 2


def test_the_eviction_of_somebody_elses_file_is_none_of_ours(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    name = artifact.url.rpartition("/")[2]
    depot.spool.evicted(Owner.CACHE, name)
    depot.spool.evicted(Owner.ARTIFACTS, "another")
    assert depot.lost == []
    assert _found(depot, artifact.url) is not None


def test_an_attempt_has_one_artifact(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    depot.make(rows(0, 3))
    with pytest.raises(RuntimeError, match="w1#1"):
        depot.spool.create(attempt_id())


def test_artifacts_do_not_survive_the_process(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    depot.make(rows(0, 3))
    crashed = depot.spool.create(attempt_id(2))
    batch = noise(megabytes=40)
    crashed.open(batch.schema, None)
    crashed.write(batch)
    assert len(files_in(depot.folder)) == 2
    assert files_in(Depot(tmp_path).folder) == []
    crashed.abandon()
