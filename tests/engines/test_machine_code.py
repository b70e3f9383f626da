"""Compiled code is made once, kept, and never taken for what it is not."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path

import numpy
import pytest

from quarterdeck.engines import compiler_process, machine_code
from quarterdeck.engines.code_folder import CodeFolder, part_for
from quarterdeck.engines.compiler_process import Job
from quarterdeck.engines.machine_code import MachineCode, UnusableCodeError
from quarterdeck.engines.object_code import ForbiddenToRunError

ROOT = Path(__file__).parents[2]
TINY = MachineCode("tests.engines.tiny_kernel", "increase")


@pytest.fixture(scope="session")
def made() -> bytes:
    return machine_code.compiled_elsewhere(Job(TINY.file_name, TINY.module, TINY.name, TINY.sources, TINY.form))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is kept. Nothing is loaded yet."""

    def folders(_: MachineCode) -> Iterator[CodeFolder]:
        yield from (CodeFolder(tmp_path / "here"), CodeFolder(tmp_path / "there"))

    monkeypatch.setattr(MachineCode, "folders", folders)
    monkeypatch.setattr(machine_code, "_LOADED", {})
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def runs(made: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """What the compiler was asked for."""
    found: list[Job] = []

    def compiled(job: Job) -> bytes:
        found.append(job)
        return made

    monkeypatch.setattr(machine_code, "compiled_elsewhere", compiled)
    return found


def increased(code: MachineCode) -> int:
    numbers = numpy.array([41], numpy.int64)
    code.load().of_address(numbers.ctypes.data)
    return int(numbers[0])


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_who_compiles_for_a_process_that_is_gone_ends_without_a_word(
    unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)  # what Python holds back it tries to write again at its end
    ours, theirs = os.pipe()
    os.close(ours)
    job = json.dumps(asdict(Job(TINY.file_name, TINY.module, TINY.name, TINY.sources, TINY.form)))
    command = [sys.executable, "-m", compiler_process.__name__]
    told = subprocess.run(command, input=f"{job}\n", stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert told.stderr == ""


def test_it_is_compiled_once_by_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not TINY.is_ready
    assert increased(TINY) == 42
    assert TINY.is_ready
    (kept,) = (folder / "here").glob("*.o")
    assert kept.name == TINY.file_name
    monkeypatch.setattr(machine_code, "_LOADED", {})
    monkeypatch.setattr(machine_code, "compiled_elsewhere", None)
    assert TINY.is_ready
    assert increased(TINY) == 42


def test_what_is_kept_is_loaded_without_the_compiler() -> None:
    script = (
        "import sys; from quarterdeck.search.engine.line_code import SCAN_LINES; SCAN_LINES.load(); "
        "print('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"y" * 1000])
def test_a_broken_file_is_made_again(folder: Path, runs: list[Job], made: bytes, damage: bytes) -> None:
    (folder / "here").mkdir()
    broken = folder / "here" / TINY.file_name
    broken.write_bytes(damage)
    assert not TINY.is_ready
    assert increased(TINY) == 42
    assert len(runs) == 1
    assert broken.read_bytes().endswith(made)


def test_one_that_lost_its_end_is_made_again(folder: Path, runs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    TINY.load()
    kept = folder / "here" / TINY.file_name
    kept.write_bytes(kept.read_bytes()[:-1])
    monkeypatch.setattr(machine_code, "_LOADED", {})
    TINY.load()
    assert len(runs) == 2


def test_where_nothing_can_be_written_it_is_made_each_time(
    folder: Path, runs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (folder / name).write_text("no folder")
    for number in (1, 2):
        monkeypatch.setattr(machine_code, "_LOADED", {})
        assert increased(TINY) == 42
        assert len(runs) == number


def test_the_second_place_is_taken_if_the_first_cannot_be_written(folder: Path, runs: list[Job]) -> None:
    (folder / "here").write_text("no folder")
    TINY.load()
    assert [path.name for path in (folder / "there").glob("*.o")] == [TINY.file_name]
    assert len(runs) == 1


def test_what_root_has_kept_is_taken_although_we_cannot_write_there(
    folder: Path, runs: list[Job], made: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    CodeFolder(folder / "here").write(TINY.file_name, hashlib.sha256(made).digest() + made)
    write = CodeFolder.write

    def write_elsewhere(self: CodeFolder, name: str, data: bytes) -> None:
        if self.path == folder / "here":
            raise PermissionError
        write(self, name, data)

    monkeypatch.setattr(CodeFolder, "write", write_elsewhere)
    assert increased(TINY) == 42
    assert runs == []
    other = replace(TINY, sources=("tests.engines.lake",))
    assert increased(other) == 42
    assert [path.name for path in (folder / "there").glob("*.o")] == [other.file_name]


def test_a_full_disk_leaves_no_half_file(folder: Path, runs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fchmod", full)
    assert increased(TINY) == 42
    assert len(runs) == 1
    assert [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_threads_wait_for_one_of_them(runs: list[Job]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(increased, [TINY] * 8)) == [42] * 8
    assert len(runs) == 1


def test_threads_wait_for_one_of_them_also_where_nothing_can_be_kept(
    folder: Path, made: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Job] = []
    second = threading.Event()

    def compiled(job: Job) -> bytes:
        if runs:
            second.set()
        runs.append(job)
        second.wait(0.1)  # what comes too early comes while this one is not done
        return made

    monkeypatch.setattr(machine_code, "compiled_elsewhere", compiled)
    for name in ("here", "there"):
        (folder / name).write_text("no folder")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(increased, [TINY] * 8)) == [42] * 8
    assert len(runs) == 1


def test_what_another_process_compiled_while_this_one_waited_is_not_compiled_again(
    folder: Path, runs: list[Job], made: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = CodeFolder.locked

    @contextlib.contextmanager
    def waited(self: CodeFolder, name: str) -> Generator[None]:
        with locked(self, name):
            CodeFolder(folder / "there").write(TINY.file_name, hashlib.sha256(made).digest() + made)
            yield

    monkeypatch.setattr(CodeFolder, "locked", waited)
    assert not TINY.load().was_compiled
    assert runs == []


def test_another_source_or_another_processor_is_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        TINY.file_name,
        replace(TINY, sources=("tests.engines.lake",)).file_name,
        replace(TINY, form="d").file_name,
    }
    monkeypatch.setattr(machine_code, "_toolchain", lambda: "another")
    names.add(replace(TINY).file_name)
    assert len(names) == 4


def test_it_is_kept_beside_its_source_or_in_the_cache_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = Path(__file__)
    here, there = [folder.path for folder in TINY.folders()][:2]
    assert here == source.parent / "__pycache__"
    assert there == tmp_path / "quarterdeck" / part_for(source)


def test_one_that_somebody_else_could_have_written_is_made_again(
    folder: Path, runs: list[Job], made: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is whole and has the right name: only who can write it tells it from ours."""
    TINY.load()
    assert len(runs) == 1
    for name in ("here", "there"):
        planted = folder / name / TINY.file_name
        planted.parent.mkdir(exist_ok=True)
        planted.write_bytes(hashlib.sha256(made).digest() + made)
        assert TINY.is_ready
        planted.chmod(0o666)
    assert not is_kept(monkeypatch)
    for name in ("here", "there"):
        (folder / name / TINY.file_name).chmod(0o644)
        (folder / name).chmod(0o777)
    assert not is_kept(monkeypatch)
    (folder / "there").chmod(0o755)
    assert is_kept(monkeypatch)


def is_kept(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a process that has just started finds it."""
    monkeypatch.setattr(machine_code, "_LOADED", {})
    return TINY.is_ready


@pytest.mark.parametrize("code", [b"garbage" * 100, b""], ids=["garbage", "nothing"])
def test_what_is_whole_and_no_code_of_this_machine_is_refused_and_says_what_to_remove(
    folder: Path, runs: list[Job], code: bytes
) -> None:
    CodeFolder(folder / "here").write(TINY.file_name, hashlib.sha256(code).digest() + code)
    for _ in range(2):
        with pytest.raises(UnusableCodeError, match="so that it is made again") as refused:
            TINY.load()
        assert TINY.file_name in str(refused.value)
        assert str(folder / "here") in str(refused.value)
        assert str(copy(refused.value)) == str(refused.value)
    assert runs == []
    (folder / "here" / TINY.file_name).unlink()
    assert increased(TINY) == 42


def test_where_the_system_lets_no_new_code_run_the_file_is_not_blamed(
    folder: Path, runs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    del folder, runs

    def forbidden(code: bytes, name: str) -> int:
        raise ForbiddenToRunError(f"no {name} of {len(code)} bytes")

    monkeypatch.setattr(machine_code, "function_in", forbidden)
    with pytest.raises(UnusableCodeError, match="MemoryDenyWriteExecute") as refused:
        TINY.load()
    assert "remove" not in str(refused.value)


def test_sources_that_have_changed_since_the_process_began_are_not_compiled_for_it(tmp_path: Path) -> None:
    changing = tmp_path / "changing_kernel.py"
    changing.write_text("VERSION = 1\n" + (Path(__file__).parent / "tiny_kernel.py").read_text())
    script = (
        "from quarterdeck.engines.machine_code import MachineCode\n"
        "from pathlib import Path\n"
        "import sys\n"
        "code = MachineCode('changing_kernel', 'increase')\n"
        "kernel = Path(sys.argv[1])\n"
        "kernel.write_text(kernel.read_text() + '# more')\n"
        "code.load()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    told = subprocess.run(
        [sys.executable, "-c", script, str(changing)], env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert "changing_kernel has changed since" in told.stderr
    assert not list(tmp_path.rglob("*.o"))


def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numba.py").write_text("raise SystemExit('this is not numba')")
    monkeypatch.chdir(tmp_path)
    assert increased(TINY) == 42
