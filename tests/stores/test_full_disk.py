"""A disk that is really full: the write fails as it should, the space is given back, and the process lives on."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.stores import growing_file
from quarterdeck.stores.disk import DiskBudget, DiskFullError, DiskLimits, GrowingFile, Owner
from tests.small_disk import a_disk
from tests.stores import parquet
from tests.stores.budgets import PLENTY, Evictions, add_artifacts, add_cached, on_disk, path_of

KIB = 1024
MIB = 1024 * KIB
ROOMY = DiskLimits(64 * MIB)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with a_disk("size=2m", tmp_path) as folder:
        yield folder


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def test_a_full_disk_is_a_disk_full_error_and_the_space_comes_back(small_disk: Path) -> None:
    budget = DiskBudget(small_disk, ROOMY, free_bytes=lambda: PLENTY)
    before_bytes = free_bytes(small_disk)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    with pytest.raises(DiskFullError, match="ENOSPC") as full:
        file.write(bytes(3 * MIB))
    assert full.value.retryable
    assert "beyond 2.0 MiB" in full.value.what
    assert file.closed
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0
    assert free_bytes(small_disk) == before_bytes
    add_artifacts(budget, "b", size_bytes=MIB)
    budget.check_invariants()


def test_parquet_on_a_full_disk_is_a_disk_full_error(small_disk: Path) -> None:
    budget = DiskBudget(small_disk, ROOMY, free_bytes=lambda: PLENTY)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    with pytest.raises(DiskFullError, match="ENOSPC"):
        parquet.write(parquet.noise([os.urandom(64 * KIB) for _ in range(48)]), file)
    assert on_disk(budget) == set()


def test_a_disk_that_somebody_else_fills_is_refused_before_it_is_full(small_disk: Path) -> None:
    budget = DiskBudget(small_disk, DiskLimits(64 * MIB, keep_free_bytes=512 * KIB))
    evictions = Evictions(budget)
    add_cached(budget, "a", "b", size_bytes=512 * KIB)
    (small_disk / "somebody-else.parquet").write_bytes(bytes(512 * KIB))
    add_artifacts(budget, "c", size_bytes=512 * KIB)
    assert evictions.keys == ["a"]
    assert free_bytes(small_disk) >= 512 * KIB
    (small_disk / "somebody-else.parquet").write_bytes(bytes(MIB))
    file = budget.create(Owner.ARTIFACTS, "d", path_of(budget, "d"))
    with pytest.raises(DiskFullError, match=r"to stay free: 512\.0 KiB"):
        file.write(bytes(1536 * KIB))
    budget.check_invariants()


def test_a_disk_without_room_for_another_file_is_a_disk_full_error(tmp_path: Path) -> None:
    with a_disk("size=2m,nr_inodes=2", tmp_path) as folder:
        budget = DiskBudget(folder, ROOMY)
        add_artifacts(budget, "a")
        with pytest.raises(DiskFullError, match="ENOSPC"):
            budget.create(Owner.ARTIFACTS, "b", path_of(budget, "b"))
        budget.remove("a")
        add_artifacts(budget, "b")


def test_a_file_larger_than_the_system_allows_is_a_disk_full_error_after_a_short_write(tmp_path: Path) -> None:
    budget = DiskBudget(tmp_path, ROOMY)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    try:
        with pytest.raises(DiskFullError, match="EFBIG"):
            file.write(bytes(2 * MIB))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.size_bytes == MIB
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0


class PlayedSystem:
    """The system's calls, with one of them failing."""

    def __init__(self, failing: str, error: OSError | None) -> None:
        self._failing = failing
        self._error = error

    def __getattr__(self, name: str) -> object:
        return self._fail if name == self._failing else getattr(os, name)

    def _fail(self, *given: object) -> int:
        if self._error is not None:
            raise self._error
        return 0


def write_and_keep(file: GrowingFile) -> None:
    file.write(b"abc")
    file.keep()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ("write", OSError(errno.EDQUOT, "quota exceeded"), "EDQUOT"),
        ("write", None, "short write"),
        ("close", OSError(errno.ENOSPC, "no space left"), "ENOSPC"),
        ("rename", OSError(errno.ENOSPC, "no space left"), "ENOSPC"),
    ],
)
def test_whichever_call_says_that_the_disk_is_full(
    call: str, error: OSError | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = DiskBudget(tmp_path, ROOMY)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    descriptor = file._descriptor  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(growing_file, "os", PlayedSystem(call, error))
    with pytest.raises(DiskFullError, match=said):
        write_and_keep(file)
    monkeypatch.undo()
    if call == "close":
        os.close(descriptor)  # a system that fails here has closed it; this one has not
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0


def test_a_broken_disk_is_told_as_it_is_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = DiskBudget(tmp_path, ROOMY)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    monkeypatch.setattr(growing_file, "os", PlayedSystem("write", OSError(errno.EIO, "input/output error")))
    with pytest.raises(OSError, match="input/output error"):
        file.write(b"abc")
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0
