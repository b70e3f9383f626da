"""Kernels: compiled by another process, kept as machine code, called with arrays that are looked at first."""

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarterdeck.engines import code_folder, compiler_process, machine_code
from quarterdeck.engines.code_folder import CodeFolder
from quarterdeck.metrics.promql.kernels import compile as compiling

KERNEL = """
import numpy as np
from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel

@part_of_kernel
def times(number: float, factor: float) -> float:
    return number * factor

@kernel
def scale(numbers: F64, factor: float, backwards: bool, places: int, out: F64) -> tuple[int, int]:
    room = np.empty(places * len(numbers))
    for index in range(len(numbers)):
        room[index] = times(numbers[index], factor)
    for index in range(len(numbers)):
        out[index] = room[len(numbers) - 1 - index] if backwards else room[index]
    return len(numbers), places
"""
SCALE = "kernel_on_trial.scale"


@pytest.fixture(autouse=True)
def no_kernel_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on trial are none of the product: `warm` would look at them in every later test of this process."""
    monkeypatch.setattr(compiling, "_ENTRIES", {each.name: each for each in compiling.kernels()})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a kernel, which Python finds."""
    folder = tmp_path_factory.mktemp("package")
    folder.chmod(0o755)
    (folder / "kernel_on_trial.py").write_text(KERNEL)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("kernel_on_trial", None)


def started_again(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel, as a process that has just started sees it."""
    monkeypatch.setattr(machine_code, "_LOADED", {})
    sys.modules.pop("kernel_on_trial", None)
    importlib.invalidate_caches()
    return importlib.import_module("kernel_on_trial").scale


@pytest.fixture
def scale(package: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return started_again(monkeypatch)


def nothing_kept(*_: object) -> None:
    """As `CodeFolder.read` where there is nothing."""


def scaled(scale: Any, numbers: Any, **changed: Any) -> Any:
    out = changed.get("out", np.empty(len(numbers)))
    assert scale(numbers, changed.get("factor", 2.0), changed.get("backwards", False), 1, out) == (len(numbers), 1)
    return out.tolist()


def test_a_kernel_does_what_its_function_does(scale: Any) -> None:
    numbers = np.arange(4.0)
    for backwards in (True, False, np.True_):
        out = np.empty(4)
        assert scale.py_func(numbers, 2.5, backwards, 3, out) == scale(numbers, 2.5, backwards, 3, np.empty(4))
        assert scaled(scale, numbers, factor=2.5, backwards=backwards) == out.tolist()
    assert scaled(scale, numbers, factor=2) == [0, 2, 4, 6], "an integer is a float where one is wanted"


def test_the_next_process_loads_what_this_one_has_compiled(scale: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool]] = []
    scaled(scale, np.ones(1))
    end = compiling.on_made(lambda name, compiled: told.append((name, compiled)))
    monkeypatch.setattr(machine_code, "compiled_elsewhere", None)
    assert scaled(started_again(monkeypatch), np.ones(1)) == [2.0]
    end()
    assert told == [(SCALE, False)]


def test_what_is_kept_is_loaded_without_the_compiler(package: Path, scale: Any) -> None:
    scaled(scale, np.ones(1))
    script = "import numpy, sys, kernel_on_trial as k\nk.scale(numpy.ones(1), 2.0, True, 1, numpy.ones(1))\n"
    script += "print('numba' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    told = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"


def test_a_change_in_a_function_that_it_calls_is_another_kernel(
    scale: Any, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scaled(scale, np.ones(1)) == [2.0]
    source = package / "kernel_on_trial.py"
    source.write_text(KERNEL.replace("number * factor", "number * factor + 1"))
    os.utime(source, (1, 1))
    try:
        assert scaled(started_again(monkeypatch), np.ones(1)) == [3.0]
    finally:
        source.write_text(KERNEL)
        os.utime(source, (2, 2))


# What it is called with


@pytest.mark.parametrize(
    "wrong",
    [
        np.arange(4.0)[::2],
        np.arange(4.0).reshape(2, 2),
        np.arange(2),
        np.arange(2, dtype=">f8"),
        np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64),
        [1.0, 2.0],
        None,
    ],
    ids=["with gaps", "two dimensions", "integers", "foreign order", "not aligned", "a list", "nothing"],
)
def test_an_array_that_a_kernel_is_not_made_for_is_refused(scale: Any, wrong: Any) -> None:
    scaled(scale, np.ones(1))
    with pytest.raises(TypeError, match=r"argument 1 of kernel_on_trial\.scale has to be a C-contiguous, aligned"):
        scale(wrong, 2.0, True, 1, np.empty(4))
    with pytest.raises(TypeError, match="argument 5 of"):
        scale(np.ones(1), 2.0, True, 1, wrong)


def test_the_number_of_arguments_is_looked_at(scale: Any) -> None:
    scaled(scale, np.ones(1))
    with pytest.raises(TypeError, match="takes 5 arguments, not 4"):
        scale(np.ones(1), 2.0, True, 1)


def test_arrays_that_only_look_different_are_taken(scale: Any, tmp_path: Path) -> None:
    pickled = pickle.loads(pickle.dumps(np.arange(2.0)))
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=2)
    mapped[:] = [0.0, 1.0]
    own = np.arange(2.0).view(np.dtype("f8", copy=True))
    for numbers in (pickled, mapped, own):
        assert scaled(scale, numbers, out=np.empty(2)) == [0.0, 2.0]


def test_for_what_it_puts_aside_there_may_be_no_memory(scale: Any) -> None:
    scaled(scale, np.ones(1))
    with pytest.raises(MemoryError, match="found no memory"):
        scale(np.ones(1), 2.0, True, 2**58, np.empty(1))


# How it is compiled


WITH_A_SET = """
from quarterdeck.metrics.promql.kernels.compile import kernel

@kernel
def is_odd(number: int) -> int:
    return 1 if number in {1, 3, 5} else 0
"""


def test_a_kernel_that_needs_what_only_numba_has_is_not_compiled(
    package: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (package / "kernel_with_a_set.py").write_text(WITH_A_SET)
    with pytest.raises(subprocess.CalledProcessError):
        importlib.import_module("kernel_with_a_set").is_odd(3)
    assert "calls what is there only with numba: NRT_" in capfd.readouterr().err


ON_CONSTANTS = """
from quarterdeck.metrics.promql.kernels.compile import kernel, part_of_kernel

@part_of_kernel
def times(number: int, factor: int) -> int:
    return number * factor

@kernel
def double(number: int) -> int:
    return times(number, 2) + times(number, 3) - times(number, 3)
"""
COUNT_FORMS = """
import kernel_on_constants as module
from quarterdeck.engines.array_call import form_of
from quarterdeck.engines.compiler_process import Job
from quarterdeck.engines.compiling import numba_form, object_file
from quarterdeck.engines.machine_code import MachineCode

code = MachineCode(module.__name__, "double", (), form_of(module.double.py_func, (1,)).text)
object_file(Job(code.file_name, code.module, code.name, code.sources, code.form))
print(len(numba_form(module.times).signatures))
"""


def test_a_part_has_one_form_whatever_the_constants_it_is_called_with(package: Path) -> None:
    (package / "kernel_on_constants.py").write_text(ON_CONSTANTS)
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-c", COUNT_FORMS]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "1"


def test_one_process_compiles_all_of_a_block(scale: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    popen = subprocess.Popen

    def counted(*arguments: Any, **named: Any) -> Any:
        started.append(arguments)
        return popen(*arguments, **named)

    monkeypatch.setattr(subprocess, "Popen", counted)
    monkeypatch.setattr(CodeFolder, "read", nothing_kept)
    with compiler_process.compiler_kept():
        for _ in range(2):
            scaled(started_again(monkeypatch), np.ones(1))
    assert len(started) == 1


def test_where_nothing_can_be_kept_it_is_said_once(
    package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def may_not_write(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(code_folder, "_TOLD", set[object]())
    monkeypatch.setattr(CodeFolder, "read", nothing_kept)
    monkeypatch.setattr(CodeFolder, "write", may_not_write)
    for _ in range(2):
        assert scaled(started_again(monkeypatch), np.ones(1)) == [2.0]
    assert sum("kept nowhere" in record.getMessage() for record in caplog.records) == 1


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user of the machine can reach, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="quarterdeck-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


NOBODY = """
import importlib, os, sys
import numpy as np
from quarterdeck.engines import machine_code
from quarterdeck.engines.compiling import object_file
from quarterdeck.metrics.promql.kernels import compile as compiling

def use():
    machine_code._LOADED.clear()
    sys.modules.pop("kernel_on_trial", None)
    importlib.import_module("kernel_on_trial").scale(np.ones(1), 2.0, True, 1, np.ones(1))

machine_code.compiled_elsewhere = object_file
keep, machine_code.MachineCode._keep = machine_code.MachineCode._keep, lambda *_: None
use()  # loads what the compiler needs: nobody may not be allowed to
machine_code.MachineCode._keep = keep
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
told = []
compiling.on_made(lambda name, compiled: told.append(int(compiled)))
for _ in range(2):
    use()
print(os.geteuid(), *told)
"""


@pytest.mark.parametrize("place", ["writable", "of somebody else"])
def test_a_user_without_home_and_right_to_the_package_compiles_and_keeps_it_where_there_is_a_place(
    open_place: Path, place: str
) -> None:
    """As in a container that runs as nobody."""
    (open_place / "package").mkdir()
    (open_place / "package" / "kernel_on_trial.py").write_text(KERNEL)
    temporary = open_place / "temporary"
    temporary.mkdir()
    temporary.chmod(0o1777)
    nobody = 65534 if os.geteuid() == 0 else os.geteuid()
    planted = temporary / f"quarterdeck-{nobody}"
    if place == "of somebody else":
        planted.mkdir()
        planted.chmod(0o777)
    if nobody == os.geteuid():
        (open_place / "package").chmod(0o555)
    told = subprocess.run(
        [sys.executable, "-B", "-c", NOBODY],
        env={
            **os.environ,
            "HOME": "/nonexistent",
            "XDG_CACHE_HOME": "",
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(open_place / "package"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    if place == "writable":
        assert told.stdout.split() == [str(nobody), "1", "0"]
        (kept,) = temporary.rglob("*.o")
        assert kept.stat().st_uid == nobody
    else:
        assert told.stdout.split() == [str(nobody), "1", "1"]
        assert f"compiled code is not kept here, nor taken from here folder={planted}" in told.stderr
