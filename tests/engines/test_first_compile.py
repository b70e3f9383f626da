"""What is compiled once on a machine is compiled by one process, and others know that it was."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quarterdeck.engines import code_folder, first_compile
from quarterdeck.engines.code_folder import CodeFolder
from quarterdeck.engines.first_compile import CompiledMark, compiled_once, python_sources

WAIT_S = 60.0


def no_wait(process: int | None) -> None:
    raise AssertionError(f"nobody else compiles, but process {process} is waited for")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledMark:
    """Of two sources, with one place."""
    (tmp_path / "package").mkdir()
    for name in ("one.py", "two.py"):
        (tmp_path / "package" / name).write_text(name)
    monkeypatch.setattr(code_folder, "_ONLY", [])
    code_folder.keep_only_in(tmp_path / "code")
    return CompiledMark(tmp_path / "package" / "one.py", python_sources((tmp_path / "package",)))


def test_what_was_compiled_is_not_compiled_again(mark: CompiledMark) -> None:
    with compiled_once((mark,), no_wait) as is_needed:
        assert is_needed
        assert not mark.is_set()
    assert mark.is_set()
    with compiled_once((mark,), no_wait) as is_needed:
        assert not is_needed


def test_what_failed_is_compiled_again(mark: CompiledMark) -> None:
    with pytest.raises(ZeroDivisionError), compiled_once((mark,), no_wait):
        raise ZeroDivisionError
    assert not mark.is_set()


def test_a_changed_source_another_processor_and_another_choice_are_compiled_for(
    mark: CompiledMark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark.set()
    names = {mark.name}
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor: 0\nmodel name: another\n\nprocessor: 1\n")
    monkeypatch.setattr(first_compile, "_PROCESSORS", processors)
    assert not mark.is_set()
    names.add(mark.name)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    names.add(mark.name)
    mark.sources[1].write_text("changed")
    names.add(mark.name)
    assert len(names) == 4


def test_which_of_the_processors_it_is_and_its_clock_do_not_count(
    mark: CompiledMark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(first_compile, "_PROCESSORS", processors)
    names: set[str] = set()
    for number, mhz in ((0, 2000), (7, 3000)):
        processors.write_text(f"processor: {number}\nmodel name: one\ncpu MHz: {mhz}\n\nprocessor: 9\n")
        names.add(mark.name)
    assert len(names) == 1


@pytest.mark.parametrize(
    "line", ["flags: avx avx512f", "model: 8", "vendor_id: other", "Features: sve", "CPU part: 0xd4"]
)
def test_what_the_processor_can_do_counts(
    mark: CompiledMark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(first_compile, "_PROCESSORS", processors)
    processors.write_text("processor: 0\nflags: avx\nmodel: 7\nvendor_id: one\nFeatures: neon\nCPU part: 0xd3\n")
    before = mark.name
    lines = [
        line if each.startswith(line.split(":", maxsplit=1)[0] + ":") else each
        for each in processors.read_text().splitlines()
    ]
    processors.write_text("\n".join(lines))
    assert mark.name != before


@pytest.mark.parametrize("changed", ["version", "machine"])
def test_another_python_and_another_kind_of_machine_are_compiled_for(
    mark: CompiledMark, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    before = mark.name
    if changed == "version":
        monkeypatch.setattr("sys.version", "3.99.0")
    else:
        monkeypatch.setattr("platform.machine", lambda: "another")
    assert mark.name != before


def test_another_compiler_is_compiled_for(mark: CompiledMark, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {mark.name}
    for changed in ("numba", "llvmlite"):

        def version(package: str, changed: str = changed) -> str:
            return "99" if package == changed else "1"

        monkeypatch.setattr(first_compile, "version", version)
        names.add(mark.name)
    assert len(names) == 3


def test_of_several_only_what_is_missing_is_set(mark: CompiledMark, tmp_path: Path) -> None:
    other = CompiledMark(mark.place, (tmp_path / "package" / "two.py",))
    other.set()
    with compiled_once((mark, other), no_wait) as is_needed:
        assert is_needed
    assert mark.is_set()


def test_one_that_waits_says_for_which_process_and_then_has_nothing_to_compile(mark: CompiledMark) -> None:
    waited_for: list[int | None] = []
    waits = threading.Event()
    needed: list[bool] = []

    def wait(process: int | None) -> None:
        waited_for.append(process)
        waits.set()

    def second() -> None:
        with compiled_once((mark,), wait) as is_needed:
            needed.append(is_needed)

    with compiled_once((mark,), no_wait) as is_needed:
        needed.append(is_needed)
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(WAIT_S)
    thread.join(WAIT_S)
    assert needed == [True, False]
    assert waited_for == [os.getpid()]


def test_where_nothing_can_be_kept_all_compile_and_it_is_said_once(
    mark: CompiledMark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_folder, "_TOLD", set[object]())
    (tmp_path / "code").write_text("no folder")
    for _ in range(2):
        with compiled_once((mark,), no_wait) as is_needed:
            assert is_needed
    (record,) = [record for record in caplog.records if "kept nowhere" in record.getMessage()]
    assert "QUARTERDECK_CODE_DIR" in record.getMessage()


def test_what_others_could_have_left_is_no_mark(mark: CompiledMark, tmp_path: Path) -> None:
    mark.set()
    (folder,) = {folder.path for folder in mark.folders()}
    folder.chmod(0o777)
    assert not mark.is_set()


STARTER = """
import sys
from pathlib import Path
from quarterdeck.engines.code_folder import keep_only_in
from quarterdeck.engines.first_compile import CompiledMark, compiled_once
import importlib
from quarterdeck.metrics.promql.kernels.compile import on_made

place, source = map(Path, sys.argv[1:])
keep_only_in(place)
sys.path.insert(0, str(source.parent))
module = importlib.import_module("kernel_on_trial")
told = []
on_made(lambda name, compiled: told.append(compiled))
print("loaded", flush=True)
sys.stdin.readline()
with compiled_once((CompiledMark(source, (source,)),), lambda process: None):
    assert module.double(21) == 42
print(*told, flush=True)
"""

KERNEL = """
from quarterdeck.metrics.promql.kernels.compile import kernel

@kernel
def double(number: int) -> int:
    return number * 2
"""


def test_of_two_processes_that_start_at_once_one_compiles_and_the_other_loads(tmp_path: Path) -> None:
    source = tmp_path / "kernel_on_trial.py"
    source.write_text(KERNEL)
    command = [sys.executable, "-c", STARTER, str(tmp_path / "code"), str(source)]
    starters = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        for _ in range(2)
    ]
    for starter in starters:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "loaded\n"
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("\n")
        starter.stdin.flush()
    told = [starter.communicate(timeout=WAIT_S)[0].split() for starter in starters]
    assert sorted(told) == [["False"], ["True"]], "whether it was compiled, of each"


def test_a_lock_says_nothing_of_a_process_that_left_no_word(tmp_path: Path) -> None:
    folder = CodeFolder(tmp_path / "code")
    waited_for: list[int | None] = []
    waits = threading.Event()

    def wait(process: int | None) -> None:
        waited_for.append(process)
        waits.set()

    def second() -> None:
        with folder.locked("lock", wait):
            pass

    with folder.locked("lock"):
        (folder.path / "lock").write_text("")
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(WAIT_S)
    thread.join(WAIT_S)
    assert waited_for == [None]
