"""A growing file: what pyarrow needs of it, and how it ends."""

from pathlib import Path

import pytest

from quarterdeck.stores.disk import DiskFullError, Owner
from tests.stores import parquet
from tests.stores.budgets import add_artifacts, on_disk, path_of, small_budget


def test_pyarrow_writes_parquet_to_it(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 100_000)
    with budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a")) as file:
        parquet.write(parquet.numbers(), file)
        assert file.path.stat().st_size == file.size_bytes == file.tell()
        file.keep()
    assert parquet.read(path_of(budget, "a")).equals(parquet.numbers())
    assert budget.figures().artifact_bytes == path_of(budget, "a").stat().st_size


def test_pyarrow_raises_what_the_budget_says_and_nothing_is_left(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    with pytest.raises(DiskFullError):
        parquet.write(parquet.numbers(), file, compression="none")
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0


def test_a_part_file_is_told_by_its_suffix_and_has_its_final_name_when_kept(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    file = budget.create(Owner.ARTIFACTS, "a", tmp_path / "a.parquet")
    assert file.write(memoryview(b"abcdef")[::1]) == 6
    assert file.write(b"") == 0
    assert (file.path, file.size_bytes) == (tmp_path / "a.parquet.part", 6)
    assert file.path.exists()
    file.keep()
    assert (tmp_path / "a.parquet").read_bytes() == b"abcdef"
    assert not file.path.exists()


def test_it_can_be_kept_under_a_name_that_is_known_only_at_the_end(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    with budget.create(Owner.CACHE, "a", tmp_path / "a") as file:
        file.write(b"abc")
        file.keep(tmp_path / "a-3.parquet")
    with budget.pinned("a") as path:
        assert path == tmp_path / "a-3.parquet"
    assert [each.name for each in tmp_path.iterdir()] == ["a-3.parquet"]


def test_a_file_kept_pinned_is_not_evicted_before_it_is_let_go(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 100)
    with budget.create(Owner.CACHE, "a", path_of(budget, "a")) as file:
        file.write(bytes(100))
        pin = file.keep_pinned()
    other = budget.create(Owner.ARTIFACTS, "b", path_of(budget, "b"))
    with pytest.raises(DiskFullError):
        other.write(b"x")
    pin.release()
    add_artifacts(budget, "c")
    assert on_disk(budget) == {"c"}


def test_abandoning_gives_everything_back_and_again_is_fine(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    file.write(bytes(10))
    file.abandon()
    file.abandon()
    assert on_disk(budget) == set()
    assert budget.figures().artifact_bytes == 0
    with pytest.raises(ValueError, match="abandoned"):
        file.write(b"x")
    with pytest.raises(ValueError, match="abandoned"):
        file.keep()
    budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a")).abandon()


def test_abandoning_what_was_kept_leaves_it(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    with budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a")) as file:
        file.write(bytes(10))
        file.keep()
        with pytest.raises(ValueError, match="kept"):
            file.keep()
    file.abandon()
    assert on_disk(budget) == {"a"}
    assert budget.figures().artifact_bytes == 10


def test_a_closed_file_takes_no_more_and_can_be_kept(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    assert (file.closed, file.writable(), file.readable(), file.seekable()) == (False, True, False, False)
    file.write(b"x")
    file.flush()
    file.close()
    file.close()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")
    file.keep()
    assert on_disk(budget) == {"a"}


def test_a_file_that_cannot_be_created_takes_no_space_and_no_key(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    with pytest.raises(FileNotFoundError):
        budget.create(Owner.CACHE, "a", tmp_path / "missing" / "a", expected_bytes=100)
    assert budget.figures().cache_bytes == 0
    budget.create(Owner.CACHE, "a", path_of(budget, "a")).abandon()


def test_a_file_that_cannot_be_moved_is_abandoned(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    file = budget.create(Owner.CACHE, "a", path_of(budget, "a"))
    file.write(bytes(10))
    with pytest.raises(FileNotFoundError):
        file.keep(tmp_path / "missing" / "a")
    assert on_disk(budget) == set()
    assert budget.figures().cache_bytes == 0
