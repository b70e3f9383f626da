"""Whether two processes mean the same place by the same path."""

from dataclasses import replace
from pathlib import Path

from quarterdeck.stores.file_marks import mark_of


def test_a_place_is_here_for_who_sees_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    mark = mark_of(tmp_path / "catalog.db")
    assert (mark.path, mark.is_here) == (str(tmp_path / "catalog.db"), True)


def test_a_place_that_is_not_made_yet_is_known_by_the_folder_above(tmp_path: Path) -> None:
    mark = mark_of(tmp_path / "not" / "yet")
    assert (mark.path, mark.is_here) == (str(tmp_path), True)


def test_the_same_path_of_another_file_or_another_machine_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    mark = mark_of(tmp_path / "a")
    (tmp_path / "b").replace(tmp_path / "a")
    assert not mark.is_here, "another file took its place"
    mark = mark_of(tmp_path / "a")
    assert not replace(mark, boot="another machine's").is_here
    assert not replace(mark, device=mark.device + 1).is_here
    (tmp_path / "a").unlink()
    assert not mark.is_here


def test_it_does_not_tell_the_number_of_the_system(tmp_path: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id")
    told = mark_of(tmp_path).boot
    assert not boot.exists() or (told and told not in boot.read_text().replace("-", ""))
