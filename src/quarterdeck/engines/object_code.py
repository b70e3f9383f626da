"""Puts an object file into memory, so that its functions can be called.

LLVM does that too, and takes 42 MB of a process for it. What our compiler makes for Linux on x86-64 needs little: its
sections side by side, and addresses written into them. Whatever else an object file may have is `UnknownObjectError`,
and for LLVM.

LLVM does not look whether a file is whole: one that is broken, or made for another machine, ends the process there. So
each offset, size and index is checked here, and what is wrong is `UnusableObjectError`, and for nobody.

The form is that of the System V ABI (https://gitlab.com/x86-psABIs/x86-64-ABI, https://refspecs.linuxfoundation.org/elf).
"""

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

_X86_64: Final = 62
_HEAD: Final = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_IN_MEMORY: Final = 0x2
_EXECUTABLE: Final = 0x4
_OF_THREADS: Final = 0x400
"""Flags of sections. What each thread has of its own is for LLVM."""
_RELOCATABLE: Final = 1
_LARGEST_ALIGNMENT: Final = 4096
_MOST_BYTES: Final = 1 << 28
"""In memory. The largest kernel has a thousandth of it."""
_WORD: Final = (1 << 64) - 1
_KEPT: Final[list[Any]] = []
"""Memory with code in it: nobody knows when the last call of a function was."""


class _Type(IntEnum):
    """Of sections."""

    BITS = 1
    SYMBOLS = 2
    RELOCATIONS = 4
    NOTE = 7
    NO_BITS = 8
    SHORT_RELOCATIONS = 9
    UNWINDING = 0x70000001
    """Nobody unwinds our stack: an exception of C++ never passes through it."""


class _In(IntEnum):
    """Instead of the number of a symbol's section."""

    LIBRARY = 0
    NONE = 0xFFF1
    COMMON = 0xFFF2


class _Relocation(IntEnum):
    """What is written: R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32 and R_X86_64_PC64."""

    ADDRESS = 1
    DISTANCE = 2
    DISTANCE_TO_CALL = 4
    FAR_DISTANCE = 24


class UnknownObjectError(Exception):
    """It has what this module does not know."""


class UnusableObjectError(Exception):
    """It is broken or of another machine. LLVM would end the process for it."""


class ForbiddenToRunError(Exception):
    """This system lets no new code run. LLVM would be refused, too."""


@dataclass(frozen=True, slots=True)
class _Section:
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    size: int


def function_in(code: bytes, name: str) -> int:
    """The address of a function of an object file, which stays in memory."""
    if not is_known_here():
        raise UnknownObjectError(f"{sys.platform} on {platform.machine()}")
    sections = _sections(code)
    symbols = _symbols(code, sections)
    places, code_bytes, size = _places(sections)
    commons: dict[int, int] = {}
    for index, symbol in enumerate(symbols):
        if symbol.section == _In.COMMON:
            size = _aligned(size, symbol.value)
            commons[index] = size
            size += symbol.size
    if size > _MOST_BYTES:
        raise UnusableObjectError(f"it wants {size} bytes of memory")
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for index, place in places.items():
        section = sections[index]
        if section.type != _Type.NO_BITS:
            memory[place : place + section.size] = _content(code, section)
    addresses = [_address(symbol, index, base, sections, places, commons) for index, symbol in enumerate(symbols)]
    for section in sections:
        if section.type == _Type.RELOCATIONS and section.info in places:
            _relocate(memory, base, places[section.info], code, section, sections[section.info].size, addresses)
    found = [
        address
        for symbol, address in zip(symbols, addresses, strict=True)
        if symbol.name == name and _is_code(symbol, sections, places)
    ]
    if len(found) != 1 or found[0] is None:
        raise UnusableObjectError(f"it has no function {name}")
    _make_executable(base, code_bytes)
    _KEPT.append(memory)
    return found[0]


def is_known_here() -> bool:
    """Whether this machine is of the kind whose object files this module knows."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


def _sections(code: bytes) -> Sequence[_Section]:
    head = _unpacked(_HEAD, code, 0)
    magic, bits, order, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = head
    if (magic, bits, order, machine) != (b"\x7fELF", 2, 1, _X86_64):
        raise UnusableObjectError("it is of another kind of machine")
    if (kind, size) != (_RELOCATABLE, _SECTION.size):
        raise UnusableObjectError("it is not an object file")
    found: list[_Section] = []
    for number in range(count):
        row = _unpacked(_SECTION, code, start + number * size)
        _, kind, flags, _, offset, length, link, info, alignment, _ = row
        found.append(_Section(kind, flags, offset, length, link, info, alignment))
    return found


def _symbols(code: bytes, sections: Sequence[_Section]) -> Sequence[_Symbol]:
    tables = [section for section in sections if section.type == _Type.SYMBOLS]
    if len(tables) != 1 or tables[0].link >= len(sections):
        raise UnusableObjectError("it has no table of symbols")
    names = _content(code, sections[tables[0].link])
    return [
        _Symbol(_text(names, name), section, value, size)
        for name, _, _, section, value, size in _rows(_SYMBOL, code, tables[0])
    ]


def _text(names: bytes, start: int) -> str:
    end = names.find(b"\0", start)
    if end < 0:
        raise UnusableObjectError("a name has no end")
    return names[start:end].decode(errors="replace")


def _rows(form: struct.Struct, code: bytes, section: _Section) -> Iterator[tuple[Any, ...]]:
    content = _content(code, section)
    if len(content) % form.size:
        raise UnusableObjectError("a table ends within a row")
    return form.iter_unpack(content)


def _content(code: bytes, section: _Section) -> bytes:
    if section.offset + section.size > len(code):
        raise UnusableObjectError("it has lost its end")
    return code[section.offset : section.offset + section.size]


def _unpacked(form: struct.Struct, code: bytes, at: int) -> tuple[Any, ...]:
    if at + form.size > len(code):
        raise UnusableObjectError("it has lost its end")
    return form.unpack_from(code, at)


def _places(sections: Sequence[_Section]) -> tuple[dict[int, int], int, int]:
    """Where each section that is needed comes, how far the code goes, and where all of them end. Code comes first, and
    has pages of its own."""
    needed = {n: one for n, one in enumerate(sections) if one.flags & _IN_MEMORY and one.type != _Type.UNWINDING}
    for section in needed.values():
        if section.type not in (_Type.BITS, _Type.NOTE, _Type.NO_BITS) or section.flags & _OF_THREADS:
            raise UnknownObjectError(f"sections of type {section.type} with flags {section.flags:#x}")
    if any(one.type == _Type.SHORT_RELOCATIONS and one.info in needed for one in sections):
        raise UnknownObjectError("relocations without addends")
    places: dict[int, int] = {}
    end = code_bytes = 0
    for wanted in (_EXECUTABLE, 0):
        for number, section in needed.items():
            if section.flags & _EXECUTABLE == wanted:
                end = _aligned(end, section.alignment)
                places[number] = end
                end += section.size
        end = _aligned(end, mmap.PAGESIZE)
        code_bytes = end if wanted else code_bytes
    return places, code_bytes, end


def _aligned(place: int, alignment: int) -> int:
    if alignment > _LARGEST_ALIGNMENT:
        raise UnknownObjectError(f"something is aligned at {alignment} bytes")
    return -(-place // max(alignment, 1)) * max(alignment, 1)


def _is_code(symbol: _Symbol, sections: Sequence[_Section], places: dict[int, int]) -> bool:
    if symbol.section not in places:
        return False
    section = sections[symbol.section]
    return bool(section.flags & _EXECUTABLE) and symbol.value < section.size


def _address(
    symbol: _Symbol,
    index: int,
    base: int,
    sections: Sequence[_Section],
    places: dict[int, int],
    commons: dict[int, int],
) -> int | None:
    """None of what is not in memory."""
    match symbol.section:
        case _In.LIBRARY:
            return _of_library(symbol.name) if symbol.name else None
        case _In.NONE:
            return symbol.value
        case _In.COMMON:
            return base + commons[index]
        case section if section in places:
            if symbol.value > sections[section].size:
                raise UnusableObjectError(f"{symbol.name} is outside of its section")
            return base + places[section] + symbol.value
        case _:
            return None


def _of_library(name: str) -> int:
    try:
        found = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
    except AttributeError:
        found = None
    if found is None:
        raise UnusableObjectError(f"this system has no {name}")
    return found


def _relocate(
    memory: mmap.mmap,
    base: int,
    place: int,
    code: bytes,
    section: _Section,
    size: int,
    addresses: Sequence[int | None],
) -> None:
    """`size` is that of the section at `place`, outside of which nothing is written."""
    for row in _rows(_RELOCATION, code, section):
        numbers: tuple[int, int, int] = row
        offset, info, addend = numbers
        if info >> 32 >= len(addresses):
            raise UnusableObjectError("an address of a symbol that is not there")
        target = addresses[info >> 32]
        if target is None:
            raise UnusableObjectError("an address of what is not in memory")
        here = place + offset
        match info & 0xFFFFFFFF:
            case _Relocation.ADDRESS:
                form, number = "<Q", (target + addend) & _WORD
            case _Relocation.FAR_DISTANCE:
                form, number = "<Q", (target + addend - (base + here)) & _WORD
            case _Relocation.DISTANCE | _Relocation.DISTANCE_TO_CALL:
                form, number = "<i", target + addend - (base + here)
                if not -(2**31) <= number < 2**31:
                    raise UnknownObjectError("something is too far away")
            case kind:
                raise UnknownObjectError(f"relocations of type {kind}")
        if offset + struct.calcsize(form) > size:
            raise UnusableObjectError("an address is to be written outside of its section")
        struct.pack_into(form, memory, here, number)


def _make_executable(base: int, size: int) -> None:
    """And no longer writable."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        number = ctypes.get_errno()
        raise ForbiddenToRunError(f"this system lets no new code run: {os.strerror(number)}")
