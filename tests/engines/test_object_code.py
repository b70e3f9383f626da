"""An object file in memory: what LLVM would make of it, and what is left to LLVM."""

import ctypes
import struct
import sys
from pathlib import Path

import pytest

from quarterdeck.engines import compiler_process, machine_code
from quarterdeck.engines.compiler_process import Job
from quarterdeck.engines.machine_code import MachineCode
from quarterdeck.engines.object_code import UnknownObjectError, function_in
from quarterdeck.search.engine.line_code import SCAN_LINES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LLVM does it elsewhere")

TINY = MachineCode("tests.engines.tiny_kernel", "increase")
SECTION = struct.Struct("<IIQQQQIIQQ")
RELOCATIONS = 4


@pytest.fixture(scope="module")
def tiny() -> bytes:
    return compiler_process.compiled_elsewhere(job(TINY))


@pytest.fixture(scope="module")
def large() -> bytes:
    """One with constants, a table and calls of the C library."""
    return compiler_process.compiled_elsewhere(job(SCAN_LINES))


def job(code: MachineCode) -> Job:
    return Job(code.file_name, code.module, code.name, code.sources, code.form)


def increased(address: int) -> int:
    number = ctypes.c_int64(41)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(ctypes.addressof(number))
    return number.value


def test_a_function_runs_as_llvm_would_run_it(tiny: bytes) -> None:
    assert increased(function_in(tiny, "increase")) == 42
    assert increased(machine_code.linked_by_llvm(tiny, "increase")) == 42


def test_code_cannot_be_written_once_it_runs(large: bytes) -> None:
    address = function_in(large, "scan_lines")
    ranges = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    for bounds, rights in ranges:
        first, past = (int(bound, 16) for bound in bounds.split("-"))
        if first <= address < past:
            assert rights == "r-xp"
            break
    else:
        pytest.fail("it is nowhere")


def with_relocations_of(kind: int, code: bytes) -> bytes:
    """Those of the code, which are of another kind then."""
    changed = bytearray(code)
    (start,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    for number in range(count):
        _, type_, _, _, offset, size, _, target, _, _ = SECTION.unpack_from(code, start + number * SECTION.size)
        flags = SECTION.unpack_from(code, start + target * SECTION.size)[2]
        if type_ == RELOCATIONS and flags & 4:
            for at in range(offset, offset + size, 24):
                struct.pack_into("<I", changed, at + 8, kind)
    return bytes(changed)


def test_a_relocation_that_is_not_known_is_for_llvm(large: bytes) -> None:
    with pytest.raises(UnknownObjectError, match="relocations of type 77"):
        function_in(with_relocations_of(77, large), "scan_lines")


def test_another_machine_is_for_llvm(tiny: bytes) -> None:
    for place, byte in ((4, 1), (5, 2), (18, 183)):
        changed = bytearray(tiny)
        changed[place] = byte
        with pytest.raises(UnknownObjectError, match="another kind of machine"):
            function_in(bytes(changed), "increase")


def test_a_function_that_is_not_there_is_an_error(tiny: bytes) -> None:
    with pytest.raises(UnknownObjectError, match="it has no function decrease"):
        function_in(tiny, "decrease")


def test_what_is_not_known_is_loaded_by_llvm(tiny: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> int:
        raise UnknownObjectError

    monkeypatch.setattr(machine_code, "function_in", unknown)
    assert increased(machine_code.linked(tiny, "increase")) == 42
