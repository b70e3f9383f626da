"""Compiled code is kept where nobody else can write, and taken from nowhere else."""

import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

import quarterdeck
from quarterdeck.engines import code_folder
from quarterdeck.engines.code_folder import (
    CodeFolder,
    DistrustedError,
    NoPlaceError,
    code_folders,
    first_writable,
    part_for,
)

INSIDE: Any = code_folder
STRANGER = 4242
"""A user that is neither us nor root."""
SOURCE = Path("/package/kernels/source.py")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(code_folder, "_TOLD", set[object]())
    caplog.set_level(logging.INFO)


@pytest.fixture
def ours(tmp_path: Path) -> CodeFolder:
    """With a file in it."""
    folder = CodeFolder(tmp_path / "above" / "folder")
    folder.write("code", b"ours")
    return folder


def given_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on it belongs to somebody else; who is not root and cannot do that says so of this one alone."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        return
    given = path.lstat()
    check = INSIDE._check_owner

    def check_owner(found: os.stat_result, place: Path) -> None:
        check(found, place)
        if (found.st_dev, found.st_ino) == (given.st_dev, given.st_ino):
            raise DistrustedError(f"{place} belongs to user {STRANGER}", "", alarming=True)

    monkeypatch.setattr(code_folder, "_check_owner", check_owner)


def refused(folder: CodeFolder, caplog: pytest.LogCaptureFixture) -> str:
    """Why nothing is taken from a folder, nor kept there; it is told once."""
    caplog.clear()
    for _ in range(2):
        assert folder.read("code") is None
        with pytest.raises(DistrustedError):
            folder.write("code", b"ours")
        with pytest.raises(DistrustedError), folder.locked("lock"):
            pass
    (record,) = caplog.records
    return f"{record.levelname} {record.getMessage()}"


# What is ours


def test_what_was_written_is_read_and_nothing_else_is_there(ours: CodeFolder) -> None:
    assert ours.read("code") == b"ours"
    assert ours.read("other") is None
    ours.write("code", b"newer")
    assert ours.read("code") == b"newer"
    assert [path.name for path in ours.path.iterdir()] == ["code"]


def test_folders_that_are_made_are_for_us_alone_and_files_are_written_by_us_alone(ours: CodeFolder) -> None:
    for path in (ours.path, ours.path.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((ours.path / "code").stat().st_mode) == 0o644


def test_a_folder_is_not_made_to_be_read(tmp_path: Path) -> None:
    assert CodeFolder(tmp_path / "new" / "folder").read("code") is None
    assert list(tmp_path.iterdir()) == []


def test_below_a_sticky_folder_nobody_can_replace_what_is_ours(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    folder = CodeFolder(tmp_path / "shared" / "ours")
    folder.write("code", b"ours")
    assert folder.read("code") == b"ours"


def test_a_link_of_ours_is_followed_and_what_it_leads_to_is_checked(
    ours: CodeFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, target in (("absolute", ours.path.parent), ("relative", Path("./above/../above"))):
        (tmp_path / name).symlink_to(target)
        assert CodeFolder(tmp_path / name / "folder").read("code") == b"ours"
    ours.path.chmod(0o777)
    assert f"everybody can write {ours.path}" in refused(CodeFolder(tmp_path / "relative" / "folder"), caplog)


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    folder = CodeFolder(tmp_path / "circle" / "folder")
    assert folder.read("code") is None
    with pytest.raises(OSError, match="Too many levels"):
        folder.write("code", b"")


def test_what_cannot_be_written_whole_is_not_written(ours: CodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space"):
        ours.write("code", b"newer")
    monkeypatch.undo()
    assert [path.name for path in ours.path.iterdir()] == ["code"]
    assert ours.read("code") == b"ours"


def test_a_folder_that_refused_a_file_is_not_named_among_those_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    folder = CodeFolder(tmp_path / "of-root")
    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(PermissionError):
        folder.write("code", b"ours")
    monkeypatch.undo()
    assert folder.path not in code_folder.folders_written()
    folder.write("code", b"ours")
    assert folder.path in code_folder.folders_written()


def test_one_at_a_time_has_the_lock_which_nobody_else_can_open(ours: CodeFolder) -> None:
    order: list[str] = []

    def second() -> None:
        with ours.locked("lock"):
            order.append("second")

    with ours.locked("lock"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert stat.S_IMODE((ours.path / "lock").stat().st_mode) == 0o600


def test_a_lock_is_one_on_a_full_disk_too(ours: CodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    entered: list[bool] = []
    with ours.locked("lock"):
        entered.append(True)
    assert entered == [True]


# What is not


@pytest.mark.parametrize(
    ("mode", "who", "level"),
    [(0o777, "everybody", "WARNING"), (0o1777, "everybody", "WARNING"), (0o775, "group", "INFO")],
)
def test_a_folder_that_others_can_write_is_passed_over_with_a_word(
    ours: CodeFolder, caplog: pytest.LogCaptureFixture, mode: int, who: str, level: str
) -> None:
    ours.path.chmod(mode)
    told = refused(ours, caplog)
    assert told.startswith(
        f"{level} compiled code is not kept here, nor taken from here folder={ours.path} reason={who}"
    )
    assert f"can write {ours.path} remedy=chmod go-w {ours.path}" in told


def test_a_folder_is_passed_over_when_others_can_replace_one_above_it(
    ours: CodeFolder, caplog: pytest.LogCaptureFixture
) -> None:
    ours.path.parent.chmod(0o777)
    assert f"everybody can write {ours.path.parent}" in refused(ours, caplog)


@pytest.mark.parametrize("which", ["folder", "above"])
def test_a_folder_of_somebody_else_is_passed_over_with_a_word(
    ours: CodeFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    path = ours.path if which == "folder" else ours.path.parent
    given_away(path, monkeypatch)
    told = refused(ours, caplog)
    assert told.startswith("WARNING ")
    assert f"{path} belongs to user " in told


def test_a_link_of_somebody_else_is_not_followed(
    ours: CodeFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(ours.path.parent)
    given_away(tmp_path / "link", monkeypatch)
    assert f"{tmp_path / 'link'} belongs to user " in refused(CodeFolder(tmp_path / "link" / "folder"), caplog)


def test_a_file_of_somebody_else_or_that_others_can_write_is_not_taken(
    ours: CodeFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ours.path / "code").chmod(0o666)
    assert ours.read("code") is None
    (ours.path / "code").chmod(0o664)
    assert ours.read("code") is None
    (ours.path / "code").chmod(0o644)
    assert ours.read("code") == b"ours"
    given_away(ours.path / "code", monkeypatch)
    assert ours.read("code") is None
    assert len(caplog.records) == 3
    ours.write("code", b"ours again")
    assert ours.read("code") == b"ours again"


def test_what_is_no_file_is_not_taken_and_nobody_waits_for_it(ours: CodeFolder) -> None:
    os.mkfifo(ours.path / "pipe")
    assert ours.read("pipe") is None
    (ours.path / "link").symlink_to("code")
    assert ours.read("link") is None
    (ours.path / "below").mkdir()
    assert ours.read("below") is None


def test_a_folder_that_is_replaced_after_the_look_changes_nothing(
    ours: CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is opened from the folder that was looked at, whatever its name means by then."""
    check = INSIDE._check

    def check_and_replace(found: os.stat_result, path: Path, *, above: bool = False) -> None:
        check(found, path, above=above)
        if path == ours.path:
            ours.path.rename(tmp_path / "moved")
            ours.path.mkdir()
            (ours.path / "code").write_bytes(b"planted")

    monkeypatch.setattr(code_folder, "_check", check_and_replace)
    assert ours.read("code") == b"ours"


def test_a_link_that_is_put_on_the_way_after_the_look_is_not_followed(
    ours: CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads to a folder like ours, which others can replace."""
    elsewhere = tmp_path / "open" / "folder"
    CodeFolder(elsewhere).write("code", b"planted")
    (tmp_path / "open").chmod(0o777)
    see = INSIDE._seen

    def see_and_replace(name: str, folder: int, make_mode: int | None) -> os.stat_result:
        found = see(name, folder, make_mode)
        if name == ours.path.name and not ours.path.is_symlink():
            ours.path.rename(tmp_path / "moved")
            ours.path.symlink_to(elsewhere)
        return found

    monkeypatch.setattr(code_folder, "_seen", see_and_replace)
    assert ours.read("code") is None


def test_every_step_is_looked_at_from_the_first_to_the_last(ours: CodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[tuple[Path, bool]] = []
    check = INSIDE._check

    def check_and_tell(found: os.stat_result, path: Path, *, above: bool = False) -> None:
        looked_at.append((path, above))
        check(found, path, above=above)

    monkeypatch.setattr(code_folder, "_check", check_and_tell)
    assert ours.read("code") == b"ours"
    above = [(path, True) for path in reversed(ours.path.parents)]
    assert looked_at == [*above, (ours.path, False), (ours.path / "code", False)]


def test_what_belongs_to_root_or_to_us_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert code_folder.owners() == {0, STRANGER}


def test_a_link_in_the_place_of_the_lock_is_not_written_through(ours: CodeFolder, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (ours.path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="Too many levels"), ours.locked("lock"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_while_a_file_is_written_nobody_else_can_open_it_nor_have_made_it(
    ours: CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    chmod = os.fchmod

    def see_and_chmod(descriptor: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        chmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", see_and_chmod)
    ours.write("code", b"newer")
    assert modes == [0o600]

    def guessed(_: int) -> str:
        return "guessed"

    monkeypatch.setattr("secrets.token_hex", guessed)
    (ours.path / ".code.guessed").write_bytes(b"planted")
    with pytest.raises(FileExistsError):
        ours.write("code", b"newest")
    assert ours.read("code") == b"newer"


@pytest.mark.parametrize("chosen", ["in the environment", "as the only one"])
def test_a_place_that_somebody_has_chosen_is_checked_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, chosen: str
) -> None:
    monkeypatch.setattr(code_folder, "_ONLY", [])
    given = tmp_path / "given"
    if chosen == "in the environment":
        monkeypatch.setenv(code_folder.CODE_VARIABLE, str(given))
    else:
        code_folder.keep_only_in(tmp_path / "earlier")
        code_folder.keep_only_in(given)
    (folder,) = [one for one in code_folders(SOURCE) if one.path.is_relative_to(given)]
    folder.write("code", b"ours")
    given.chmod(0o777)
    assert f"everybody can write {given}" in refused(folder, caplog)
    given.chmod(0o755)
    assert folder.read("code") == b"ours"


# Which folders there are


@pytest.fixture
def without_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder for temporary files."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(code_folder.CODE_VARIABLE, "")
    monkeypatch.delenv(code_folder.CODE_VARIABLE)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def paths() -> list[Path]:
    return [folder.path for folder in code_folders(SOURCE)]


def test_beside_the_source_in_the_users_cache_or_among_temporary_files(
    without_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, last = SOURCE.parent / "__pycache__", without_home / f"quarterdeck-{os.geteuid()}" / part_for(SOURCE)
    assert paths() == [beside, last], "a home that is not there is not made"
    (without_home / "home").mkdir()
    monkeypatch.setenv("HOME", str(without_home / "home"))
    assert paths() == [beside, without_home / "home" / ".cache" / "quarterdeck" / part_for(SOURCE), last]
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert paths() == [beside, Path("/xdg/quarterdeck") / part_for(SOURCE), last]
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert paths()[1] == without_home / "home" / ".cache" / "quarterdeck" / part_for(SOURCE), "only an absolute one"


def test_with_a_data_folder_there_is_a_place_in_it_before_that_among_temporary_files(
    without_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    code_folder.share_code_in(Path("/data"))
    beside, last = SOURCE.parent / "__pycache__", without_home / f"quarterdeck-{os.geteuid()}" / part_for(SOURCE)
    crew = Path("/data/code") / part_for(SOURCE)
    assert paths() == [beside, Path("/xdg/quarterdeck") / part_for(SOURCE), crew, last]
    code_folder.share_code_in(Path("/data/worker-1"))
    assert crew in paths(), "the processes of a crew share that of the crew"


def test_a_process_that_starts_later_within_the_folder_of_a_crew_shares_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place() -> Path:
        monkeypatch.setenv(code_folder.CODE_VARIABLE, "")
        monkeypatch.delenv(code_folder.CODE_VARIABLE)
        code_folder.share_code_in(tmp_path / "one-more")
        return Path(os.environ[code_folder.CODE_VARIABLE])

    (tmp_path / "code").mkdir()
    assert place() == tmp_path / "one-more" / "code", "a folder of that name may be anybody's"
    (tmp_path / "code" / part_for(Path(quarterdeck.__file__))).mkdir()
    assert place() == tmp_path / "code"


def test_code_that_is_kept_ahead_in_a_data_folder_is_kept_nowhere_else(
    without_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_folder, "_ONLY", [])
    code_folder.keep_only_in(code_folder.code_dir(Path("/data")))
    assert paths() == [Path("/data/code") / part_for(SOURCE)]


def test_the_place_of_a_crew_can_be_read_by_whoever_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may have compiled there."""
    monkeypatch.setenv(code_folder.CODE_VARIABLE, str(tmp_path / "code"))
    (folder,) = [folder for folder in code_folders(SOURCE) if folder.path.is_relative_to(tmp_path)]
    folder.write("code", b"")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o755


def test_the_first_place_that_can_be_written_is_found_and_without_one_each_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    bad = [CodeFolder(tmp_path / "file"), CodeFolder(tmp_path / "open"), CodeFolder(tmp_path / "read only")]
    good = CodeFolder(tmp_path / "good")
    access = os.access

    def may_not(path: str, mode: int, *, dir_fd: int) -> bool:
        inside = os.path.realpath(f"/proc/self/fd/{dir_fd}")
        return not inside.endswith("read only") and access(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "access", may_not)
    assert first_writable([*bad, good]) == good
    with pytest.raises(NoPlaceError) as refused:
        first_writable(bad)
    for why in ("file: Not a directory", "everybody can write", "read only: Permission denied", "QUARTERDECK_CODE_DIR"):
        assert why in str(refused.value)


def test_without_a_folder_for_temporary_files_there_is_one_less(
    without_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("tempfile.gettempdir", none)
    assert paths() == [SOURCE.parent / "__pycache__"]


def test_folders_of_sources_do_not_share_a_place() -> None:
    other = Path("/other/kernels/source.py")
    assert part_for(SOURCE).startswith("kernels-")
    assert part_for(SOURCE) != part_for(other)
    assert part_for(SOURCE) == part_for(SOURCE.with_name("other.py"))
