"""A process that is ready lets go of code that only its start has touched, and of nothing else."""

import ctypes
import mmap
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from quarterdeck.crew.process import library_code
from quarterdeck.crew.process.library_code import let_go_of_library_code

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system tells nobody of his memory")

_PAGES: Final = 4
_SIZE: Final = _PAGES * mmap.PAGESIZE
_LIBC: Final[Any] = ctypes.CDLL(None)

_ARROW = """
import re
from pathlib import Path
import pyarrow.parquet
from quarterdeck.crew.process.library_code import let_go_of_library_code
from quarterdeck.crew.process.lifecycle import leave

def of_files():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"RssFile:\\s+(\\d+)", status)[1])

before = of_files()
let_go = let_go_of_library_code()
print(before - of_files(), let_go)
pyarrow.parquet.write_table(pyarrow.table({"n": [1, 2, 3]}), "n.parquet")
print(pyarrow.parquet.read_table("n.parquet").column("n").to_pylist())
leave(0)
"""


def test_libraries_take_less_memory_and_work_as_before(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _ARROW], check=True, capture_output=True, text=True, cwd=tmp_path)
    figures, rows = done.stdout.splitlines()
    less, let_go = map(int, figures.split())
    assert let_go > 10 << 20
    assert less > let_go // 2
    assert rows == "[1, 2, 3]"


class Part:
    """A part of this process's memory that is a part of a file."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._first = ctypes.c_char.from_buffer(memory)
        self._start = ctypes.addressof(self._first)

    def write(self, data: bytes) -> None:
        """Into its beginning, for this process alone."""
        self._memory[: len(data)] = data

    def forbid_writing(self) -> None:
        assert _LIBC.mprotect(ctypes.c_void_p(self._start), ctypes.c_size_t(_SIZE), mmap.PROT_READ) == 0

    def told(self) -> str:
        """What the system tells of it, its line and the figures below."""
        text = Path("/proc/self/smaps").read_text()
        start = text.index(f"{self._start:x}-")
        return text[start : text.index("VmFlags", start)]

    def in_memory(self) -> bool:
        """Whether any of it is."""
        return not re.search(r"^Rss: +0 kB$", self.told(), re.MULTILINE)

    def content(self) -> bytes:
        return ctypes.string_at(self._start, _SIZE)

    def close(self) -> None:
        del self._first
        self._memory.close()


@contextmanager
def mapped(file: Path) -> Generator[Part]:
    """All of a file, for this process alone and in memory, as the system maps a library that is loaded."""
    file.write_bytes(b"a" * _SIZE)
    with file.open("r+b") as opened:
        part = Part(mmap.mmap(opened.fileno(), _SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    try:
        assert part.content() == b"a" * _SIZE
        yield part
    finally:
        part.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where libraries are installed."""
    made = tmp_path / "site-packages"
    made.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(made)])
    return made


def test_code_that_is_as_its_file_has_it_is_let_go_of(folder: Path) -> None:
    with mapped(folder / "library.so") as part:
        part.forbid_writing()
        assert part.in_memory()
        let_go_of_library_code()
        assert not part.in_memory()
        assert part.content() == b"a" * _SIZE


def test_what_was_written_into_code_stays(folder: Path) -> None:
    """A debugger does so."""
    with mapped(folder / "library.so") as part:
        part.write(b"trap")
        part.forbid_writing()
        let_go_of_library_code()
        assert part.content() == b"trap" + b"a" * (_SIZE - 4)


def test_what_was_written_into_code_stays_when_it_is_swapped_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mapped(folder / "library.so") as part:
        part.forbid_writing()
        (tmp_path / "smaps").write_text(re.sub(r"(?m)^Swap: +0 kB$", "Swap: 4 kB", part.told()))
        monkeypatch.setattr(library_code, "_SMAPS", tmp_path / "smaps")
        assert let_go_of_library_code() == 0
        assert part.in_memory()


class Looks:
    """Stands for the file that tells of memory, when that tells something else each time."""

    def __init__(self, *told: str) -> None:
        self._told = iter(told)

    def read_text(self, **_: str) -> str:
        return next(self._told)


@pytest.mark.parametrize("change", [(" r--p ", " rw-p "), ("Anonymous: +0 kB", "Anonymous: 4 kB")])
def test_a_library_that_is_only_just_loaded_stays(
    change: tuple[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look all of its place was a part of the file. At the second its data stands there."""
    with mapped(folder / "library.so") as part:
        part.forbid_writing()
        now = re.sub(*change, part.told())
        assert now != part.told()
        monkeypatch.setattr(library_code, "_SMAPS", Looks(part.told(), now))
        assert let_go_of_library_code() == 0
        assert part.in_memory()


def test_where_the_system_tells_nothing_nothing_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_code, "_SMAPS", tmp_path / "nothing")
    assert let_go_of_library_code() == 0


def test_what_may_be_written_to_stays(folder: Path) -> None:
    with mapped(folder / "library.so") as part:
        let_go_of_library_code()
        assert part.in_memory()


def test_what_is_not_installed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though Python would load it: the current folder may be any, also the one with all others in it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), "/", ""])
    with mapped(tmp_path / "library.so") as part:
        part.forbid_writing()
        let_go_of_library_code()
        assert part.in_memory()
