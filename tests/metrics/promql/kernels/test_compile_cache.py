"""Compiled code on disk: a broken file, or none that can be written, costs time and nothing else; one that somebody
else could have written is not looked into."""

import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.engines import code_folder
from quarterdeck.engines.code_folder import CodeFolder, part_for
from quarterdeck.metrics.promql.kernels import compile as compiling

WAIT_S = 60.0
KERNEL = """
from quarterdeck.metrics.promql.kernels.compile import kernel

@kernel
def double(number):
    return number * 2
"""


def load(file: Path) -> Any:
    """The kernel of a file, as a process that has just started sees it."""
    spec = importlib.util.spec_from_file_location("kernel_on_trial", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiling, "_ENTRIES", dict[str, Any]())  # a kernel on trial is none that others have to warm
    monkeypatch.setattr(cast("Any", compiling)._config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "package").mkdir(mode=0o755)
    file = tmp_path / "package" / "kernel_on_trial.py"
    file.write_text(KERNEL)
    return file


def was_loaded(compiled: Any) -> bool:
    return bool(compiled.stats.cache_hits)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def write_garbage(file: Path) -> None:
    file.write_text("garbage\n")


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [cut_short, write_garbage, empty])
def test_a_broken_file_is_made_anew(file: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    assert load(file)(21.0) == 42.0
    again = load(file)
    assert again(21.0) == 42.0
    assert was_loaded(again), "or this test says nothing"
    broken = list(file.parent.rglob(pattern))
    assert broken
    for one in broken:
        damage(one)
    mended = load(file)
    assert mended(21.0) == 42.0
    assert not was_loaded(mended)
    later = load(file)
    assert later(21.0) == 42.0
    assert was_loaded(later)


def test_a_full_disk_does_not_keep_a_kernel_from_running(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache: Any = cast("Any", compiling)._caching.IndexDataCacheFile
    monkeypatch.setattr(cache, "save", no_room)
    assert load(file)(21.0) == 42.0


def test_numba_is_not_asked_for_a_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds none for a user without a home and without right to the package, and then refuses to compile."""

    class NoPlace:
        @classmethod
        def from_function(cls, *_: object) -> None:
            return None

    impl = cast("Any", compiling)._caching.CacheImpl
    monkeypatch.setattr(impl, "_locator_classes", [NoPlace])
    first_began, second_began, first_done = threading.Event(), threading.Event(), threading.Event()
    njit = cast("Any", compiling).numba.njit

    def njit_meanwhile(*arguments: object, **named: object) -> object:
        """The first waits until the second is in the middle, and the second until the first is done."""
        if not first_began.is_set():
            first_began.set()
            assert second_began.wait(WAIT_S)
        elif not second_began.is_set():
            second_began.set()
            assert first_done.wait(WAIT_S)
        return njit(*arguments, **named)

    monkeypatch.setattr(cast("Any", compiling).numba, "njit", njit_meanwhile)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(load, file)
        first.add_done_callback(lambda _: first_done.set())
        assert first_began.wait(WAIT_S)
        second = threads.submit(load, file)
        assert first.result(WAIT_S)(21.0) == 42.0
        assert second.result(WAIT_S)(21.0) == 42.0


def test_where_nothing_can_be_kept_it_is_said_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_folder, "_TOLD", set[object]())

    def may_not_write(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(CodeFolder, "write", may_not_write)
    for _ in range(2):
        compiled = load(file)
        assert compiled(21.0) == 42.0
        assert not was_loaded(compiled)
    assert sum("kept nowhere" in record.getMessage() for record in caplog.records) == 1


PARTS = """
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel

@part_of_kernel
def times(number, factor):
    return number * factor

@kernel
def double(number):
    return times(number, 2) + times(number, 3) - times(number, 3)
"""


def test_a_part_has_one_form_whatever_the_constants_it_is_called_with(file: Path) -> None:
    file.write_text(PARTS)
    double = load(file)
    assert double(21) == 42
    assert len(double.py_func.__globals__["times"].signatures) == 1


# Files that somebody else could have written


class Planted:
    """Leaves a mark when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self._mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "planted code ran"


def plant(file: Path, mark: Path) -> Path:
    """Among what is kept of a kernel; the folder in which it is."""
    assert load(file)(21.0) == 42.0
    (index,) = file.parent.parent.rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(mark)))
    return index.parent


def test_what_is_in_a_folder_of_our_own_is_loaded(file: Path, mark: Path) -> None:
    """Or those below say nothing."""
    plant(file, mark)
    assert load(file)(21.0) == 42.0
    assert mark.exists()


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("where", ["the folder", "the package"])
def test_what_is_in_a_folder_that_others_can_write_is_not_loaded(
    file: Path, mark: Path, mode: int, where: str, tmp_path: Path
) -> None:
    folder = plant(file, mark)
    (folder if where == "the folder" else file.parent).chmod(mode)
    passed_over = load(file)
    assert passed_over(21.0) == 42.0
    assert not mark.exists()
    assert not was_loaded(passed_over)
    assert list((tmp_path / "cache").rglob("*.nbi")), "it is kept in the next place"
    again = load(file)
    assert again(21.0) == 42.0
    assert was_loaded(again)


def test_what_belongs_to_somebody_else_is_not_loaded(file: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = plant(file, mark)
    if os.geteuid() == 0:
        os.chown(folder, 4242, 4242)
    else:
        monkeypatch.setattr(code_folder, "owners", lambda: frozenset((0,)))
    assert load(file)(21.0) == 42.0
    assert not mark.exists()


def test_a_folder_that_the_environment_names_is_checked_like_any_other(
    file: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setattr(cast("Any", compiling)._config, "CACHE_DIR", str(given))
    folder = plant(file, mark)
    assert folder == given / part_for(file)
    given.chmod(0o777)
    assert load(file)(21.0) == 42.0
    assert not mark.exists()
    given.chmod(0o700)
    assert load(file)(21.0) == 42.0
    assert mark.exists()


def test_what_root_has_kept_beside_the_source_is_taken_although_we_cannot_write_there(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(file)(21.0) == 42.0
    write = CodeFolder.write

    def may_write_elsewhere(folder: CodeFolder, name: str, data: bytes) -> None:
        if folder.path == file.parent / "__pycache__":
            raise PermissionError
        write(folder, name, data)

    monkeypatch.setattr(CodeFolder, "write", may_write_elsewhere)
    taken = load(file)
    assert taken(21.0) == 42.0
    assert was_loaded(taken)
    assert taken(21) == 42, "of other types"
    assert list((tmp_path / "cache").rglob("*.nbi"))


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user of the machine can reach, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="quarterdeck-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


NOBODY = """
import importlib.util, os, sys

def load(path):
    spec = importlib.util.spec_from_file_location("kernel_on_trial", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double

assert load(sys.argv[1])(21.0) == 42.0  # imports what the compiler needs: nobody may not be allowed to
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
compiled = load(sys.argv[2])
assert compiled(21.0) == 42.0
again = load(sys.argv[2])
assert again(21.0) == 42.0
print(os.geteuid(), len(again.stats.cache_hits))
"""


@pytest.mark.parametrize("place", ["writable", "of somebody else"])
def test_a_user_without_home_and_right_to_the_package_compiles_and_keeps_it_where_there_is_a_place(
    open_place: Path, place: str
) -> None:
    """As in a container that runs as nobody."""
    for name in ("first", "second"):
        (open_place / name).mkdir()
        (open_place / name / "kernel_on_trial.py").write_text(KERNEL)
    temporary = open_place / "temporary"
    temporary.mkdir()
    temporary.chmod(0o1777)
    nobody = 65534 if os.geteuid() == 0 else os.geteuid()
    planted = temporary / f"quarterdeck-{nobody}"
    if place == "of somebody else":
        planted.mkdir()
        planted.chmod(0o777)
    if nobody == os.geteuid():
        (open_place / "second").chmod(0o555)
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            NOBODY,
            *(str(open_place / name / "kernel_on_trial.py") for name in ("first", "second")),
        ],
        env={
            **os.environ,
            "HOME": "/nonexistent",
            "XDG_CACHE_HOME": "",
            "TMPDIR": str(temporary),
            "NUMBA_CACHE_DIR": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    if place == "writable":
        assert told.stdout.split() == [str(nobody), "1"]
        (kept,) = temporary.rglob("*.nbi")
        assert kept.stat().st_uid == nobody
    else:
        assert told.stdout.split() == [str(nobody), "0"]
        assert f"compiled code is not kept here, nor taken from here folder={planted}" in told.stderr
