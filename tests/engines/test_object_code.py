"""An object file in memory: what LLVM would make of it, what is left to LLVM, and what nobody may load."""

import ctypes
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.engines import compiler_process, machine_code, object_code
from quarterdeck.engines.compiler_process import Job
from quarterdeck.engines.machine_code import MachineCode
from quarterdeck.engines.object_code import UnknownObjectError, UnusableObjectError, function_in
from quarterdeck.search.engine.line_code import SCAN_LINES
from tests.engines.object_files import (
    ABSOLUTE,
    ADDRESS,
    BITS,
    CODE,
    COMMON,
    COUNT_UP,
    DISTANCE,
    EXECUTABLE,
    FAR_DISTANCE,
    HEAD_BYTES,
    IN_CODE,
    JUMP,
    LIBRARY,
    LOADED,
    NO_BITS,
    READ,
    RETURN,
    SYMBOL_BYTES,
    WRITABLE,
    ObjectFile,
    Relocation,
    Section,
    Symbol,
    changed,
    to_register,
)

pytestmark = pytest.mark.skipif(not object_code.is_known_here(), reason="LLVM does it elsewhere")

TINY = MachineCode("tests.engines.tiny_kernel", "increase")
UNWINDING = 0x70000001


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


def result_of(file: ObjectFile, argument: int = 0) -> int:
    return called(function_in(file.data(), "run"), argument)


def called(address: int, argument: int = 0) -> int:
    result: int = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(argument)
    return result


def with_address_of(symbol: Symbol, *more: Section, addend: int = 0, then: bytes = b"") -> ObjectFile:
    """Gives the address of a symbol, or does something with it."""
    code = to_register() + then + RETURN
    return ObjectFile(code, more, (symbol,), (Relocation(IN_CODE, ADDRESS, symbol.name, addend),))


PLAIN = ObjectFile(to_register(42) + RETURN)
OF_DATA = with_address_of(Symbol("numbers", 2), Section(struct.pack("<2q", 11, 22)), then=READ)


# What is loaded


def test_a_function_runs_as_llvm_would_run_it(tiny: bytes) -> None:
    assert increased(function_in(tiny, "increase")) == 42
    assert increased(machine_code.linked_by_llvm(tiny, "increase")) == 42


def test_code_stays_in_memory_when_nobody_holds_it_but_its_address() -> None:
    addresses = [function_in(ObjectFile(to_register(number) + RETURN).data(), "run") for number in range(50)]
    assert [called(address) for address in addresses] == list(range(50))


NUMBERS = struct.pack("<3q", 11, 22, 33)


@pytest.mark.parametrize(
    ("code", "at", "kind", "addend"),
    [
        pytest.param(to_register(), IN_CODE, ADDRESS, 0, id="address"),
        pytest.param(b"\x48\x8d\x05" + bytes(4), 3, DISTANCE, -4, id="distance from the next instruction"),
        pytest.param(
            # The address of the next instruction, and how far it is from there.
            b"\x48\x8d\x05" + bytes(4) + b"\x48\xb9" + bytes(8) + b"\x48\x01\xc8",
            9,
            FAR_DISTANCE,
            2,
            id="long distance",
        ),
    ],
)
@pytest.mark.parametrize("further", [0, 8])
@pytest.mark.parametrize("value", [0, 8])
def test_an_address_is_written_in_each_way(
    code: bytes, at: int, kind: int, addend: int, further: int, value: int
) -> None:
    where = Relocation(at, kind, "numbers", addend + further)
    file = ObjectFile(code + READ + RETURN, (Section(NUMBERS, alignment=8),), (Symbol("numbers", 2, value),), (where,))
    assert result_of(file) == 11 * (1 + (further + value) // 8)


def test_a_symbol_that_is_a_number_is_that_number() -> None:
    assert result_of(with_address_of(Symbol("number", ABSOLUTE, 1234), addend=1)) == 1235
    assert result_of(with_address_of(Symbol("number", ABSOLUTE, 1), addend=-2)) == -1


def test_what_the_c_library_has_is_called() -> None:
    file = ObjectFile(
        to_register() + JUMP, symbols=(Symbol("labs", LIBRARY),), relocations=(Relocation(IN_CODE, ADDRESS, "labs"),)
    )
    assert result_of(file, -7) == 7


def test_a_section_without_bits_is_empty_memory_that_can_be_written() -> None:
    empty = Section(type=NO_BITS, flags=LOADED | WRITABLE, size=8, alignment=8)
    address = function_in(with_address_of(Symbol("count", 2), empty, then=COUNT_UP + READ).data(), "run")
    assert [called(address) for _ in range(3)] == [1, 2, 3]


def test_what_has_only_a_size_gets_memory_of_its_own_that_is_aligned() -> None:
    symbols = (Symbol("small", COMMON, 1, 3), Symbol("one", COMMON, 64, 8), Symbol("two", COMMON, 64, 8))
    difference = b"\x48\x89\xc1" + to_register() + b"\x48\x29\xc8"  # what it had, taken from another address
    relocations = (Relocation(IN_CODE, ADDRESS, "one"), Relocation(13 + IN_CODE, ADDRESS, "two"))
    assert result_of(ObjectFile(to_register() + difference + RETURN, (), symbols, relocations)) == 64
    assert result_of(with_address_of(symbols[1])) % 64 == 0
    address = function_in(with_address_of(symbols[1], then=COUNT_UP + READ).data(), "run")
    assert [called(address) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("alignment", [0, 1, 64, 4096])
def test_sections_are_aligned_as_they_ask_for(alignment: int) -> None:
    more = (Section(b"x"), Section(NUMBERS, alignment=alignment))
    assert result_of(with_address_of(Symbol("numbers", 3), *more)) % max(alignment, 1) == 0
    assert result_of(with_address_of(Symbol("numbers", 3), *more, then=READ)) == 11


def test_what_unwinds_the_stack_is_not_loaded() -> None:
    unwinding = Section(b"x" * 16, UNWINDING)
    told = Section(struct.pack("<QQq", 0, 1 << 32 | 77, 0), type=4, flags=0, info=2)
    assert result_of(ObjectFile(PLAIN.code, (unwinding, told))) == 42


def rights_at(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, rights = line.split()[:2]
        first, past = (int(bound, 16) for bound in bounds.split("-"))
        if first <= address < past:
            return rights
    pytest.fail("it is nowhere")


def test_code_cannot_be_written_once_it_runs_and_data_cannot_be_run(large: bytes) -> None:
    assert rights_at(function_in(large, "scan_lines")) == "r-xp"
    address = function_in(with_address_of(Symbol("numbers", 2), Section(NUMBERS)).data(), "run")
    assert rights_at(address) == "r-xp"
    assert rights_at(called(address)) == "rw-p"


# What is left to LLVM


def with_relocations_of(kind: int, code: bytes) -> bytes:
    """Those of the code, which are of another kind then."""
    made = bytearray(code)
    (start,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    form = struct.Struct("<IIQQQQIIQQ")
    for number in range(count):
        _, type_, _, _, offset, size, _, target, _, _ = form.unpack_from(code, start + number * form.size)
        flags = form.unpack_from(code, start + target * form.size)[2]
        if type_ == 4 and flags & EXECUTABLE:
            for at in range(offset, offset + size, 24):
                struct.pack_into("<I", made, at + 8, kind)
    return bytes(made)


def test_a_relocation_that_is_not_known_is_for_llvm(large: bytes) -> None:
    with pytest.raises(UnknownObjectError, match="relocations of type 77"):
        function_in(with_relocations_of(77, large), "scan_lines")


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (ObjectFile(PLAIN.code, (Section(b"x", alignment=8192),)), "aligned at 8192 bytes"),
        (with_address_of(Symbol("one", COMMON, 8192, 8)), "aligned at 8192 bytes"),
        (ObjectFile(PLAIN.code, (Section(bytes(8), flags=LOADED | 0x400),)), "flags 0x402"),
        (ObjectFile(PLAIN.code, (Section(bytes(8), type=14),)), "sections of type 14"),
        (ObjectFile(PLAIN.code, (Section(bytes(16), type=9, flags=0, info=CODE),)), "without addends"),
        (
            ObjectFile(
                b"\x48\x8d\x05" + bytes(4) + RETURN,
                symbols=(Symbol("far", ABSOLUTE, 1 << 62),),
                relocations=(Relocation(3, DISTANCE, "far"),),
            ),
            "too far away",
        ),
    ],
)
def test_what_other_compilers_make_is_for_llvm(file: ObjectFile, why: str) -> None:
    with pytest.raises(UnknownObjectError, match=why):
        function_in(file.data(), "run")


@pytest.mark.parametrize(
    ("name", "other"),
    [("sys.platform", "darwin"), ("platform.machine", lambda: "aarch64"), ("sys.maxsize", 2**31 - 1)],
)
def test_on_another_kind_of_machine_everything_is_for_llvm(
    name: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name, other)
    with pytest.raises(UnknownObjectError):
        function_in(PLAIN.data(), "run")


def test_what_is_not_known_is_loaded_by_llvm(tiny: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> int:
        raise UnknownObjectError

    monkeypatch.setattr(machine_code, "function_in", unknown)
    assert increased(machine_code.linked(tiny, "increase")) == 42
    with pytest.raises(UnusableObjectError, match="it has no function decrease"):
        machine_code.linked(tiny, "decrease")


# What is for nobody


def row(section: int, column: int) -> int:
    """Where a word of what `OF_DATA` says of a section is."""
    return OF_DATA.row_of(section) + column


TYPE, OFFSET, SIZE, LINK, INFO = 4, 24, 32, 40, 44
NAMES, SYMBOLS, TOLD = OF_DATA.tables, OF_DATA.tables + 1, OF_DATA.tables + 2
WHOLE = OF_DATA.data()
(FIRST_SYMBOL,) = struct.unpack_from("<Q", WHOLE, row(SYMBOLS, OFFSET))
(FIRST_TOLD,) = struct.unpack_from("<Q", WHOLE, row(TOLD, OFFSET))
RUN = FIRST_SYMBOL + SYMBOL_BYTES
"""The row of the function."""
DATA = RUN + SYMBOL_BYTES


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "lost its end", id="nothing"),
        pytest.param(b"garbage" * 100, "another kind of machine", id="garbage"),
        pytest.param(changed(WHOLE, 0, "B", 0), "another kind of machine", id="another form"),
        pytest.param(changed(WHOLE, 4, "B", 1), "another kind of machine", id="32 bits"),
        pytest.param(changed(WHOLE, 5, "B", 2), "another kind of machine", id="other order of bytes"),
        pytest.param(changed(WHOLE, 18, "<H", 183), "another kind of machine", id="other processor"),
        pytest.param(changed(WHOLE, 16, "<H", 3), "not an object file", id="a library"),
        pytest.param(changed(WHOLE, 58, "<H", 40), "not an object file", id="other rows"),
        pytest.param(changed(WHOLE, 40, "<Q", 2**64 - 64), "lost its end", id="no table of sections"),
        pytest.param(changed(WHOLE, 60, "<H", 60_000), "lost its end", id="too many sections"),
        pytest.param(changed(WHOLE, 60, "<H", 0), "no table of symbols", id="no sections"),
        pytest.param(changed(WHOLE, row(SYMBOLS, TYPE), "<I", 0), "no table of symbols", id="no symbols"),
        pytest.param(changed(WHOLE, row(NAMES, TYPE), "<I", 2), "no table of symbols", id="two tables of symbols"),
        pytest.param(changed(WHOLE, row(SYMBOLS, LINK), "<I", 99), "no table of symbols", id="no names"),
        pytest.param(changed(WHOLE, row(SYMBOLS, SIZE), "<Q", 25), "within a row", id="half a symbol"),
        pytest.param(changed(WHOLE, row(SYMBOLS, SIZE), "<Q", 2**63), "lost its end", id="too many symbols"),
        pytest.param(changed(WHOLE, RUN, "<I", 2**32 - 1), "no end", id="a name outside of the names"),
        pytest.param(changed(WHOLE, row(NAMES, SIZE), "<Q", 3), "no end", id="a name without an end"),
        pytest.param(changed(WHOLE, row(CODE, SIZE), "<Q", 2**20), "lost its end", id="code beyond the end"),
        pytest.param(changed(WHOLE, row(CODE, OFFSET), "<Q", 2**63), "lost its end", id="code outside"),
        pytest.param(changed(WHOLE, row(CODE, SIZE), "<Q", 2**63), "bytes of memory", id="very much code"),
        pytest.param(changed(WHOLE, row(TOLD, SIZE), "<Q", 23), "within a row", id="half a relocation"),
        pytest.param(changed(WHOLE, FIRST_TOLD + 12, "<I", 3), "that is not there", id="no such symbol"),
        pytest.param(changed(WHOLE, FIRST_TOLD + 12, "<I", 0), "not in memory", id="the symbol without a name"),
        pytest.param(changed(WHOLE, FIRST_TOLD, "<Q", len(OF_DATA.code) - 7), "outside of its", id="over the end"),
        pytest.param(changed(WHOLE, FIRST_TOLD, "<Q", 2**64 - 4), "outside of its", id="far outside"),
        pytest.param(changed(WHOLE, DATA + 6, "<H", 9), "not in memory", id="a section that is not there"),
        pytest.param(changed(WHOLE, DATA + 6, "<H", NAMES), "not in memory", id="a section that is not loaded"),
        pytest.param(changed(WHOLE, DATA + 8, "<Q", 17), "numbers is outside", id="a symbol outside"),
        pytest.param(changed(WHOLE, DATA + 6, "<H", LIBRARY), "this system has no numbers", id="unknown here"),
        pytest.param(changed(WHOLE, RUN + 6, "<H", 2), "no function run", id="a function in data"),
        pytest.param(changed(WHOLE, RUN + 6, "<H", ABSOLUTE), "no function run", id="a function anywhere"),
        pytest.param(changed(WHOLE, RUN + 6, "<H", COMMON), "no function run", id="an empty function"),
        pytest.param(changed(WHOLE, RUN + 6, "<H", NAMES), "no function run", id="a function that is not loaded"),
        pytest.param(changed(WHOLE, RUN + 8, "<Q", len(OF_DATA.code)), "no function run", id="a function at the end"),
    ],
)
def test_what_is_broken_or_foreign_is_refused_and_llvm_is_not_asked(
    data: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called(function_in(WHOLE, "run")) == 11, "or this test says nothing"
    monkeypatch.setattr(machine_code, "linked_by_llvm", None)
    with pytest.raises(UnusableObjectError, match=why):
        machine_code.linked(data, "run")


@pytest.mark.parametrize(
    "file",
    [
        ObjectFile(PLAIN.code, (Section(type=NO_BITS, size=1 << 45),)),
        with_address_of(Symbol("one", COMMON, 8, 1 << 62)),
    ],
)
def test_what_wants_all_memory_is_refused(file: ObjectFile) -> None:
    with pytest.raises(UnusableObjectError, match="bytes of memory"):
        function_in(file.data(), "run")


def test_a_distance_is_written_only_within_its_section() -> None:
    told = (Relocation(5, DISTANCE, "run"),)
    with pytest.raises(UnusableObjectError, match="outside of its section"):
        function_in(ObjectFile(b"\x48\x8d\x05" + bytes(4) + RETURN, (Section(bytes(16)),), (), told).data(), "run")


def test_a_function_of_the_c_library_or_one_that_is_there_twice_is_none_of_the_file() -> None:
    for symbols, name in (((Symbol("labs", LIBRARY),), "labs"), ((Symbol("run", CODE),), "run")):
        with pytest.raises(UnusableObjectError, match=f"it has no function {name}"):
            function_in(ObjectFile(PLAIN.code, symbols=symbols).data(), name)


def test_a_function_that_is_not_there_is_an_error(tiny: bytes) -> None:
    with pytest.raises(UnusableObjectError, match="it has no function decrease"):
        function_in(tiny, "decrease")


def test_a_file_that_was_cut_is_refused_wherever_that_was() -> None:
    for length in range(len(WHOLE)):
        with pytest.raises(UnusableObjectError):
            function_in(WHOLE[:length], "run")


def test_whatever_is_damaged_it_is_loaded_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "_KEPT", [])
    chance, refused = random.Random(1), 0
    numbers = (0, 1, 8, len(WHOLE), 2**31, 2**32, 2**63, 2**64 - 1)
    for _ in range(3000):
        damaged = bytearray(WHOLE)
        for _ in range(chance.randint(1, 3)):
            at = chance.choice((chance.randrange(HEAD_BYTES), chance.randrange(len(WHOLE) - 8)))
            damaged[at : at + 8] = struct.pack("<Q", chance.choice((*numbers, chance.getrandbits(64))))
        try:
            function_in(bytes(damaged), "run")
        except (UnknownObjectError, UnusableObjectError):
            refused += 1
    assert 0 < refused < 3000


FORBIDDEN = """
import ctypes, sys
from quarterdeck.engines.object_code import ForbiddenToRunError, function_in
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # nothing becomes executable from now on
    sys.exit(77)
try:
    function_in(sys.stdin.buffer.read(), "run")
except ForbiddenToRunError as error:
    print(error)
"""


def test_where_the_system_lets_nothing_new_run_that_is_said() -> None:
    told = subprocess.run([sys.executable, "-c", FORBIDDEN], input=PLAIN.data(), capture_output=True, check=False)
    if told.returncode == 77:
        pytest.skip("this system cannot forbid it")
    assert told.stdout.decode().strip() == "this system lets no new code run: Permission denied", told.stderr


def test_a_file_without_code_has_no_function() -> None:
    with pytest.raises(UnusableObjectError, match="no function run"):
        function_in(ObjectFile(b"", (Section(b"x", BITS),)).data(), "run")
