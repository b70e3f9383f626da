"""A file that is written durably: whole or not there, and on the disk with the folders it is in."""

import os
import stat
from pathlib import Path

import pytest

from quarterdeck.stores.durable_file import write_durably


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_it_is_there_whole_and_an_older_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.parquet"
    for data in (b"first", b"", b"another"):
        write_durably(path, data)
        assert path.read_bytes() == data
    assert names_in(path.parent) == ["c.parquet"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_older_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "c.parquet"
    write_durably(path, b"older")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"newer")
    assert path.read_bytes() == b"older"
    assert names_in(tmp_path) == ["c.parquet"]


def test_the_file_and_every_folder_that_was_made_for_it_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def watched(opened: int) -> None:
        synced.append(Path(f"/proc/self/fd/{opened}").readlink())
        fsync(opened)

    monkeypatch.setattr(os, "fsync", watched)
    write_durably(tmp_path / "a" / "b" / "c.parquet", b"data")
    file, *folders = synced
    assert file.name.startswith(".c.parquet-")
    assert sorted(folders) == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    synced.clear()
    write_durably(tmp_path / "a" / "b" / "d.parquet", b"data")
    assert synced[1:] == [tmp_path / "a" / "b"]


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.parquet").mkdir()
    with pytest.raises(OSError, match=r"."):
        write_durably(tmp_path / "c.parquet", b"data")
    assert names_in(tmp_path) == ["c.parquet"]
    assert stat.S_ISDIR((tmp_path / "c.parquet").stat().st_mode)
