"""Puts an object file into memory, so that its functions can be called.

LLVM does that too, and takes 42 MB of a process for it. What our compiler makes for Linux on x86-64 needs little: its
sections side by side, and addresses written into them. Whatever else an object file may have is `UnknownObjectError`,
and for LLVM.

The form is that of the System V ABI (https://gitlab.com/x86-psABIs/x86-64-ABI, https://refspecs.linuxfoundation.org/elf).
"""

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Sequence
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
"""Flags of sections."""
_LARGEST_ALIGNMENT: Final = 4096
_KEPT: Final[list[Any]] = []
"""Memory with code in it: nobody knows when the last call of a function was."""


class _Type(IntEnum):
    """Of sections."""

    SYMBOLS = 2
    RELOCATIONS = 4
    NO_BITS = 8
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
    if sys.platform != "linux":
        raise UnknownObjectError(sys.platform)
    sections = _sections(code)
    symbols = _symbols(code, sections)
    places, code_bytes, size = _places(sections)
    commons: dict[int, int] = {}
    for index, symbol in enumerate(symbols):
        if symbol.section == _In.COMMON:
            size = _aligned(size, symbol.value)
            commons[index] = size
            size += symbol.size
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for index, place in places.items():
        section = sections[index]
        if section.type != _Type.NO_BITS:
            memory[place : place + section.size] = code[section.offset : section.offset + section.size]
    addresses = [_address(symbol, index, base, places, commons) for index, symbol in enumerate(symbols)]
    for section in sections:
        if section.type == _Type.RELOCATIONS and section.info in places:
            _relocate(memory, base, places[section.info], code, section, addresses)
    _make_executable(base, code_bytes)
    _KEPT.append(memory)
    found = [address for symbol, address in zip(symbols, addresses, strict=True) if symbol.name == name]
    if len(found) != 1 or found[0] is None:
        raise UnknownObjectError(f"it has no function {name}")
    return found[0]


def _sections(code: bytes) -> Sequence[_Section]:
    magic, bits, order, _, machine, _, _, _, start, _, _, _, _, size, count, _ = _HEAD.unpack_from(code)
    if (magic, bits, order, machine, size) != (b"\x7fELF", 2, 1, _X86_64, _SECTION.size):
        raise UnknownObjectError("it is of another kind of machine")
    found: list[_Section] = []
    for number in range(count):
        _, kind, flags, _, offset, length, link, info, alignment, _ = _SECTION.unpack_from(code, start + number * size)
        found.append(_Section(kind, flags, offset, length, link, info, max(alignment, 1)))
    return found


def _symbols(code: bytes, sections: Sequence[_Section]) -> Sequence[_Symbol]:
    (table,) = (section for section in sections if section.type == _Type.SYMBOLS)
    texts = sections[table.link]
    found: list[_Symbol] = []
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, _, _, section, value, size = _SYMBOL.unpack_from(code, at)
        start = texts.offset + name
        found.append(_Symbol(code[start : code.index(b"\0", start)].decode(), section, value, size))
    return found


def _places(sections: Sequence[_Section]) -> tuple[dict[int, int], int, int]:
    """Where each section that is needed comes, how far the code goes, and where all of them end. Code comes first, and
    has pages of its own."""
    needed = {n: one for n, one in enumerate(sections) if one.flags & _IN_MEMORY and one.type != _Type.UNWINDING}
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
    return -(-place // alignment) * alignment


def _address(symbol: _Symbol, index: int, base: int, places: dict[int, int], commons: dict[int, int]) -> int | None:
    """None of what is not in memory."""
    match symbol.section:
        case _In.LIBRARY:
            return _of_library(symbol.name) if symbol.name else None
        case _In.NONE:
            return symbol.value
        case _In.COMMON:
            return base + commons[index]
        case section:
            return base + places[section] + symbol.value if section in places else None


def _of_library(name: str) -> int:
    try:
        found = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
    except AttributeError:
        found = None
    if found is None:
        raise UnknownObjectError(f"nobody knows {name}")
    return found


def _relocate(
    memory: mmap.mmap, base: int, place: int, code: bytes, section: _Section, addresses: Sequence[int | None]
) -> None:
    for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
        numbers: tuple[int, int, int] = _RELOCATION.unpack_from(code, at)
        offset, info, addend = numbers
        target = addresses[info >> 32]
        if target is None:
            raise UnknownObjectError("an address of what is not in memory")
        here = place + offset
        match info & 0xFFFFFFFF:
            case _Relocation.ADDRESS:
                struct.pack_into("<Q", memory, here, target + addend)
            case _Relocation.FAR_DISTANCE:
                struct.pack_into("<q", memory, here, target + addend - (base + here))
            case _Relocation.DISTANCE | _Relocation.DISTANCE_TO_CALL:
                distance = target + addend - (base + here)
                if not -(2**31) <= distance < 2**31:
                    raise UnknownObjectError("something is too far away")
                struct.pack_into("<i", memory, here, distance)
            case kind:
                raise UnknownObjectError(f"relocations of type {kind}")


def _make_executable(base: int, size: int) -> None:
    """And no longer writable."""
    library = ctypes.CDLL(None, use_errno=True)
    if size and library.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        number = ctypes.get_errno()
        raise UnknownObjectError(f"the system does not let it run: {os.strerror(number)}")
