"""Files of the Parquet cache: what their names say, and whether the files agree with that.

A name has everything that verifying the file needs: the object it is a copy of (a hash of URL and version), its size,
and the checksum of its bytes.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import xxhash

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.growing_file import PART_SUFFIX
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.object_errors import changed, told_with
from quarterdeck.stores.objects import ObjectRef, local_version
from quarterdeck.stores.regular_files import open_regular, stat_regular

_NAME: Final = re.compile(r"([0-9a-f]{32})-(\d+)-([0-9a-f]{32})\.parquet")
_PART: Final = re.compile(r"[0-9a-f]{32}-\d+" + re.escape(PART_SUFFIX))
_MAGIC: Final = b"PAR1"
_SMALLEST_BYTES: Final = 12
"""Both magics and the length of the footer between them."""
_READ_BYTES: Final = MIB
_READS_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class CacheFile:
    """The name of a whole file."""

    source: str
    """Of what it is a copy, as `source_of` says."""
    size_bytes: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.source}-{self.size_bytes}-{self.checksum}.parquet"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """None if it is not one of ours."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), found[3])


def source_of(ref: ObjectRef) -> str:
    """One version of one object. A cryptographic hash: nobody can name an object so that it is taken for another."""
    return hashlib.blake2b(f"{ref.url}\0{ref.version}".encode(), digest_size=16).hexdigest()


def unfinished_name(ref: ObjectRef) -> str:
    """As long as the checksum is not known; on the disk it has the suffix of a part file."""
    return f"{source_of(ref)}-{ref.size_bytes}"


def is_part(name: str) -> bool:
    return _PART.fullmatch(name) is not None


class Verification:
    """Reads a file to see whether size and checksum are those of its name; in steps, so that it can be left."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._expected: Final = CacheFile.parse(path.name)
        self._checksum: Final = xxhash.xxh3_128()
        self._read_bytes = 0

    def step(self) -> bool | None:
        """Whether it is sound; None if it has to be called again."""
        if self._expected is None:
            return False
        try:
            with os.fdopen(open_regular(self._path), "rb", buffering=0) as file:
                file.seek(self._read_bytes)
                for _ in range(_READS_AT_ONCE):
                    chunk = file.read(_READ_BYTES)
                    if not chunk:
                        return self._is_as_expected(self._expected)
                    self._checksum.update(chunk)
                    self._read_bytes += len(chunk)
        except FileNotFoundError:
            return False
        return None

    def _is_as_expected(self, expected: CacheFile) -> bool:
        return self._read_bytes == expected.size_bytes and self._checksum.hexdigest() == expected.checksum


def check_parquet(path: Path, url: str) -> None:
    """Whether it begins and ends as a Parquet file does."""
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        head = file.read(len(_MAGIC))
        file.seek(max(0, size_bytes - len(_MAGIC)))
        tail = file.read(len(_MAGIC))
    if size_bytes < _SMALLEST_BYTES or head != _MAGIC or tail != _MAGIC:
        raise QuarterdeckError(
            ErrorCode.WORK_FAILED,
            f"{url} cannot be read",
            f"it is not a Parquet file: of {size_bytes} bytes, its first and last four are not Parquet's",
            "name Parquet files only, and check that its writer has finished it",
        )


def check_unchanged(ref: ObjectRef, path: Path) -> None:
    """Whether a local file still is what was listed, and a file."""
    with told_with(ref.url):
        found = stat_regular(path)
    version = local_version(found.st_size, found.st_mtime_ns // 1000)
    if not ref.is_met_by(ObjectRef(ref.url, found.st_size, version)):
        raise changed(ref.url)


def check_in_place(ref: ObjectRef, path: Path) -> None:
    """Whether a local file still is what was listed, and Parquet."""
    check_unchanged(ref, path)
    with told_with(ref.url):
        check_parquet(path, ref.url)
