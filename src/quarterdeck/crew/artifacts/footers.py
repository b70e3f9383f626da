"""What a Parquet file says of its columns and pages, read here instead of by pyarrow.

pyarrow 26 ends the process when it is asked for a column of some damaged footers: what its parser throws there, nobody
catches. And it takes as much memory for a page as the page says it needs, before it looks whether that is there. Both
are told in Thrift's compact form; fields go by their numbers in parquet.thrift of parquet-format. No more is read than
is needed.

It must not know what an artifact is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_BYTE_ARRAY: Final = 6
_DEEPEST: Final = 16
"""Footers that are well made have six."""

# Fields
_ROW_GROUPS: Final = 4
_COLUMNS: Final = 1
_GROUP_ROWS: Final = 3
_COLUMN_METADATA: Final = 3
_TYPE: Final = 1
_VALUES: Final = 5
_UNCOMPRESSED_BYTES: Final = 6
_COMPRESSED_BYTES: Final = 7
_DATA_OFFSET: Final = 9
_DICTIONARY_OFFSET: Final = 11
_PAGE_UNCOMPRESSED_BYTES: Final = 2
_PAGE_COMPRESSED_BYTES: Final = 3

# Thrift's types
_STOP: Final = 0
_BOOLEANS: Final = (1, 2)
_BYTE: Final = 3
_INTEGERS: Final = (4, 5, 6)
_DOUBLE: Final = 7
_BINARY: Final = 8
_LISTS: Final = (9, 10)
_MAP: Final = 11
_STRUCT: Final = 12


_HEADER_BYTES: Final = 512
"""Of a page. Most are a tenth of that; one with more is read again."""
_LONGEST_HEADER_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column of one row group."""

    is_text: bool
    values: int
    rows: int
    """Of the group."""
    uncompressed_bytes: int
    compressed_bytes: int
    data_offset: int
    dictionary_offset: int | None

    @property
    def start(self) -> int:
        """Where its first page is."""
        dictionary = self.dictionary_offset
        return dictionary if dictionary is not None and 0 < dictionary < self.data_offset else self.data_offset


def column_chunks(footer: bytes) -> list[ColumnChunk]:
    """Of all row groups. Raises `ValueError` when it is no footer."""
    try:
        return list(_Reader(footer).chunks())
    except IndexError:
        raise ValueError("its footer ends in the middle") from None


def insist_pages(
    chunks: list[ColumnChunk], read: Callable[[int, int], bytes], size_bytes: int, largest_bytes: int
) -> None:
    """Raises `ValueError` unless every page is within the file and takes no more than so many bytes unpacked. `read`
    gets a place and a length, and may give less at the end."""
    for chunk in chunks:
        if chunk.values <= 0:  # then nobody reads a page of it, and its first one may be said to be anywhere
            continue
        at, end = chunk.start, chunk.start + chunk.compressed_bytes
        if at < 0 or chunk.compressed_bytes < 0 or end > size_bytes:
            raise ValueError("it has a column outside of the file")
        while at < end:
            length, compressed, uncompressed = _page(read, at)
            at += length + compressed
            if compressed < 0 or at > end:
                raise ValueError(f"it has a page of {compressed:,} bytes, and its column is shorter")
            if not 0 <= uncompressed <= largest_bytes:
                raise ValueError(f"it has a page that takes {uncompressed:,} bytes, and {largest_bytes:,} is the most")


def _page(read: Callable[[int, int], bytes], at: int) -> tuple[int, int, int]:
    """How long the header of a page is, and the page, and the page unpacked."""
    for length in (_HEADER_BYTES, _LONGEST_HEADER_BYTES):
        reader = _Reader(read(at, length))
        try:
            numbers = reader.numbers()
        except IndexError:
            continue
        return reader.at, numbers.get(_PAGE_COMPRESSED_BYTES, 0), numbers.get(_PAGE_UNCOMPRESSED_BYTES, 0)
    raise ValueError("it has a page without an end of its header")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def chunks(self) -> Iterator[ColumnChunk]:
        for field, kind in self._fields():
            if field == _ROW_GROUPS and kind in _LISTS:
                for _ in self._structs():
                    yield from self._group()
            else:
                self._skip(kind, 1)

    def _group(self) -> list[ColumnChunk]:
        rows = 0
        found: list[dict[int, int]] = []
        for field, kind in self._fields():
            if field == _COLUMNS and kind in _LISTS:
                for _ in self._structs():
                    found += self._column()
            elif field == _GROUP_ROWS and kind in _INTEGERS:
                rows = self._integer()
            else:
                self._skip(kind, 3)
        return [
            ColumnChunk(
                each.get(_TYPE) == _BYTE_ARRAY,
                each.get(_VALUES, 0),
                rows,
                each.get(_UNCOMPRESSED_BYTES, 0),
                each.get(_COMPRESSED_BYTES, 0),
                each.get(_DATA_OFFSET, 0),
                each.get(_DICTIONARY_OFFSET),
            )
            for each in found
        ]

    def _column(self) -> Iterator[dict[int, int]]:
        for field, kind in self._fields():
            if field == _COLUMN_METADATA and kind == _STRUCT:
                yield self.numbers()
            else:
                self._skip(kind, 5)

    def numbers(self) -> dict[int, int]:
        """All whole numbers in a struct, by their fields."""
        found: dict[int, int] = {}
        for field, kind in self._fields():
            if kind in _INTEGERS:
                found[field] = self._integer()
            else:
                self._skip(kind, 6)
        return found

    # Thrift

    def _fields(self) -> Iterator[tuple[int, int]]:
        """The number and type of each field of a struct; who gets one has to read it."""
        field = 0
        while head := self._byte():
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self._integer()
            if kind == _STOP:
                raise ValueError("its footer has a field without a type")
            yield field, kind

    def _structs(self) -> range:
        length, kind = self._list()
        if kind != _STRUCT:
            raise ValueError("its footer has a list of something else")
        return range(length)

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        length = head >> 4
        return (self._varint() if length == 15 else length), head & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("its footer is too deep")
        if kind in _INTEGERS:
            self._varint()
        elif kind == _BINARY:
            self._pass_over(self._varint())
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind in _LISTS:
            length, inner = self._list()
            self._skip_all(length, (inner,), depth)
        elif kind == _MAP:
            if length := self._varint():
                kinds = self._byte()
                self._skip_all(length, (kinds >> 4, kinds & 15), depth)
        elif kind == _DOUBLE:
            self._pass_over(8)
        elif kind == _BYTE:
            self._pass_over(1)
        elif kind not in _BOOLEANS:  # which have no more than their type, in a struct
            raise ValueError(f"its footer has a field of type {kind}")

    def _skip_all(self, length: int, kinds: tuple[int, ...], depth: int) -> None:
        if all(kind in (*_BOOLEANS, _BYTE) for kind in kinds):
            self._pass_over(length * len(kinds))
            return
        for _ in range(length):
            for kind in kinds:
                self._skip(_BYTE if kind in _BOOLEANS else kind, depth + 1)

    def _pass_over(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _byte(self) -> int:
        found = self._data[self.at]
        self.at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("its footer has a number that is too long")

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
