"""What has to be compiled once on a machine: whether it was, whose turn it is, and the progress.

A mark is an empty file in a folder for compiled code. Its name has everything that decides what the compiler makes: the
sources, the versions of Python and of the compiler, the processor. It says that somebody has compiled everything here,
and is found without loading the compiler. It is not a promise: code that is missing after all is compiled again.
"""

import contextlib
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

from quarterdeck.engines.code_folder import CodeFolder, code_folders, tell_unkept

_DIGITS: Final = 16
_CHOICES: Final = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")
_PROCESSORS: Final = Path("/proc/cpuinfo")
_TOLD_OF_PROCESSOR: Final = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    compiled: int = 0
    """Of those that are done; the others were there, and are loaded."""


OnProgress: TypeAlias = Callable[[Progress], None]
OnWait: TypeAlias = Callable[[int | None], None]
"""Gets the process that compiles meanwhile, as far as that is known."""


@dataclass(frozen=True, slots=True)
class CompiledMark:
    """`sources` are files that decide what is compiled; `place` is one whose folders have the mark."""

    place: Path
    sources: tuple[Path, ...]

    @property
    def name(self) -> str:
        digest = hashlib.sha256(toolchain().encode())
        for source in sorted(self.sources):
            digest.update(source.read_bytes())
        return f"compiled-{digest.hexdigest()[:_DIGITS]}"

    def folders(self) -> list[CodeFolder]:
        """Where it may be, the best first."""
        return list(code_folders(self.place))

    def is_set(self) -> bool:
        name = self.name
        return any(folder.read(name) is not None for folder in self.folders())

    def set(self) -> None:
        for folder in self.folders():
            with contextlib.suppress(OSError):
                folder.write(self.name, b"")
                return
        tell_unkept()


@contextlib.contextmanager
def compiled_once(marks: Sequence[CompiledMark], on_wait: OnWait) -> Generator[bool]:
    """Gives whether the block has something to compile; one process at a time is in it then, and the marks are set at
    its end. Where no file can be written, all compile."""
    if all(mark.is_set() for mark in marks):
        yield False
        return
    with contextlib.ExitStack() as stack:
        for folder in marks[0].folders():
            with contextlib.suppress(OSError):
                stack.enter_context(folder.locked(f"{marks[0].name}.lock", on_wait))
                break
        missing = [mark for mark in marks if not mark.is_set()]
        yield bool(missing)
        for mark in missing:
            mark.set()


def python_sources(folders: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(source for folder in folders for source in sorted(folder.glob("*.py")))


def toolchain() -> str:
    """The compiler, and the processor that it compiles for."""
    compilers = [f"{package} {version(package)}" for package in ("numba", "llvmlite")]
    chosen = [f"{name}={os.environ.get(name, '')}" for name in _CHOICES]
    return "\n".join((sys.version, *compilers, *chosen, platform.machine(), *_processor()))


def _processor() -> list[str]:
    """What Linux tells of the first one; elsewhere LLVM has to be asked."""
    try:
        first, _, _ = _PROCESSORS.read_text(errors="replace").partition("\n\n")
    except OSError:
        from llvmlite import binding  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - see above

        llvm: Any = binding
        return [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return [line for line in first.splitlines() if line.partition(":")[0].strip() in _TOLD_OF_PROCESSOR]
