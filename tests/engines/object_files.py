"""Object files for Linux on x86-64, written by hand: small, and wrong where a test wants it."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

BITS, TEXTS, RELOCATIONS, NO_BITS = 1, 3, 4, 8
WRITABLE, LOADED, EXECUTABLE = 1, 2, 4
ADDRESS, DISTANCE, FAR_DISTANCE = 1, 2, 24
LIBRARY, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2
CODE: Final = 1
"""The number of the section that each file begins with."""
HEAD_BYTES, SECTION_BYTES, SYMBOL_BYTES = 64, 64, 24


def to_register(number: int = 0) -> bytes:
    """Puts a number into the register of results: an address, once it is written there, at the byte of `IN_CODE`."""
    return b"\x48\xb8" + struct.pack("<q", number)


IN_CODE: Final = 2
"""Where the number of `to_register` begins."""
RETURN: Final = b"\xc3"
READ: Final = b"\x48\x8b\x00"
"""Takes what is at the address."""
COUNT_UP: Final = b"\x48\xff\x00"
"""Adds one to what is at the address."""
JUMP: Final = b"\xff\xe0"
"""Goes on at the address."""


@dataclass(frozen=True, slots=True)
class Section:
    content: bytes = b""
    type: int = BITS
    flags: int = LOADED
    alignment: int = 1
    link: int = 0
    info: int = 0
    size: int | None = None
    """Another one than the content has."""


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    section: int
    value: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Relocation:
    """Of the code."""

    at: int
    type: int
    symbol: str
    addend: int = 0


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """With a function `run`, which is all its code."""

    code: bytes
    more: Sequence[Section] = ()
    """From number two on."""
    symbols: Sequence[Symbol] = ()
    relocations: Sequence[Relocation] = ()
    run: Symbol = field(default_factory=lambda: Symbol("run", CODE))

    @property
    def tables(self) -> int:
        """The number of the first of the sections that come last: names, symbols, relocations."""
        return 2 + len(self.more)

    def row_of(self, section: int) -> int:
        """Where what the file says of a section begins."""
        return len(self.data()) - SECTION_BYTES * (self.tables + 3 - section)

    def data(self) -> bytes:
        symbols = [Symbol("", 0), self.run, *self.symbols]
        numbers = {symbol.name: number for number, symbol in enumerate(symbols)}
        names, rows = b"", b""
        for symbol in symbols:
            rows += struct.pack("<IBBHQQ", len(names), 0x10, 0, symbol.section, symbol.value, symbol.size)
            names += symbol.name.encode() + b"\0"
        told = b"".join(
            struct.pack("<QQq", one.at, numbers[one.symbol] << 32 | one.type, one.addend) for one in self.relocations
        )
        sections = [
            Section(type=0, flags=0),
            Section(self.code, flags=LOADED | EXECUTABLE, alignment=16),
            *self.more,
            Section(names, TEXTS, flags=0),
            Section(rows, type=2, flags=0, link=self.tables),
            Section(told, RELOCATIONS, flags=0, link=self.tables + 1, info=CODE),
        ]
        body, table = b"", b""
        for one in sections:
            size = len(one.content) if one.size is None else one.size
            table += struct.pack(
                "<IIQQQQIIQQ",
                *(0, one.type, one.flags, 0, HEAD_BYTES + len(body), size, one.link, one.info, one.alignment, 0),
            )
            body += one.content
        start = HEAD_BYTES + len(body)
        head = struct.pack(
            "<4sBB10xHHIQQQIHHHHHH",
            *(b"\x7fELF", 2, 1, 1, 62, 1, 0, 0, start, 0, HEAD_BYTES, 0, 0, SECTION_BYTES, len(sections), 0),
        )
        return head + body + table


def changed(data: bytes, at: int, form: str, number: int) -> bytes:
    """With a number at a place."""
    made = bytearray(data)
    struct.pack_into(form, made, at, number)
    return bytes(made)
