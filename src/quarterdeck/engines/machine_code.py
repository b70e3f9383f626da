"""Python functions compiled to machine code once on a machine, and then loaded without the compiler.

The compiler has a process of its own, `compiler_process`. Where compiled code is kept, and that it is taken only from
where nobody else can write, is the affair of `code_folder`. What it was made of and for which processor is in its name,
so that no other is ever taken; its digest is in the file, so that a broken one is made again.
"""

import contextlib
import ctypes
import hashlib
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import CodeFolder, code_folders, tell_unkept
from quarterdeck.engines.compiler_process import Job, compiled_elsewhere
from quarterdeck.engines.first_compile import toolchain
from quarterdeck.engines.object_code import (
    ForbiddenToRunError,
    UnknownObjectError,
    UnusableObjectError,
    function_in,
)

_FORMAT: Final = b"2"
_DIGEST_BYTES: Final = 32
_LOCK: Final = threading.Lock()
_LOADED: Final[dict["MachineCode", "Loaded"]] = {}
_OF_ADDRESS: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_ENGINES: Final[list[Any]] = []
"""What holds the code that LLVM has loaded."""


class UnusableCodeError(QuarterdeckError):
    """What is kept of a function is whole, and cannot be run all the same."""

    def __init__(self, file_name: str, why: str, what_to_do: str) -> None:
        super().__init__(ErrorCode.INTERNAL, f"the compiled code in {file_name} was not loaded", why, what_to_do)
        self.args = (file_name, why, what_to_do)  # from which copy and pickle make it anew


@dataclass(frozen=True, slots=True)
class Loaded:
    """A function in memory."""

    address: int
    was_compiled: bool
    """Whether this process has had it compiled; else somebody had before."""

    @property
    def of_address(self) -> Callable[[int], int]:
        """A function of one address. It lets go of the interpreter's lock."""
        return _OF_ADDRESS(self.address)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A function, and what decides what it does. It takes an address and returns an integer, whatever it was in
    Python."""

    module: str
    name: str
    sources: tuple[str, ...] = ()
    """Other modules that are compiled into it."""
    form: str = ""
    """What a function takes and returns that is no function of an address: an `array_call.Form`."""
    file_name: str = field(init=False)
    """Of the compiled form for this machine, of the sources as they are now: those that this process has loaded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file_name", self._name())

    def load(self) -> Loaded:
        """The first time on a machine it has to be compiled, which takes some seconds. Raises `UnusableCodeError`."""
        with _LOCK:
            found = _LOADED.get(self)
            if found is None:
                code = self._kept()
                made, was_compiled = (code, False) if code is not None else self._made()
                found = _LOADED[self] = Loaded(self._linked(made), was_compiled)
            return found

    @property
    def is_ready(self) -> bool:
        """Whether loading it need not wait for the compiler."""
        return self in _LOADED or self._kept() is not None

    def folders(self) -> Iterator[CodeFolder]:
        """Where it may be, the best first."""
        yield from code_folders(_source(self.module))

    def _name(self) -> str:
        digest = hashlib.sha256(_FORMAT)
        for part in (_toolchain(), self.form):
            digest.update(part.encode() + b"\0")
        for module in (self.module, *self.sources):
            digest.update(_source(module).read_bytes())
        return f"{self.name}.{digest.hexdigest()[:_DIGEST_BYTES]}.o"

    def _kept(self) -> bytes | None:
        for folder in self.folders():
            data = folder.read(self.file_name) or b""
            digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                return code
        return None

    def _linked(self, code: bytes) -> int:
        try:
            return linked(code, self.name)
        except UnusableObjectError as error:
            folders = " or ".join(str(folder.path) for folder in self.folders())
            remedy = f"remove the file from {folders}, so that it is made again"
            raise UnusableCodeError(self.file_name, str(error), remedy) from error
        except ForbiddenToRunError as error:
            remedy = "let this process have memory with code (MemoryDenyWriteExecute of systemd forbids it, or SELinux)"
            raise UnusableCodeError(self.file_name, str(error), remedy) from error

    def _made(self) -> tuple[bytes, bool]:
        """Compiled, by one process at a time: others find what it has kept."""
        with self._turn():
            code = self._kept()
            if code is not None:
                return code, False
            code = compiled_elsewhere(Job(self.file_name, self.module, self.name, self.sources, self.form))
            self._keep(code)
            return code, True

    def _keep(self, code: bytes) -> None:
        """Where it can be written; nowhere costs the next process the time to compile it, and nothing else."""
        for folder in self.folders():
            with contextlib.suppress(OSError):
                folder.write(self.file_name, hashlib.sha256(code).digest() + code)
                return
        tell_unkept()

    @contextlib.contextmanager
    def _turn(self) -> Generator[None]:
        with contextlib.ExitStack() as stack:
            for folder in self.folders():
                with contextlib.suppress(OSError):
                    stack.enter_context(folder.locked(f"{self.name}.lock"))
                    break
            yield


def linked(code: bytes, name: str) -> int:
    """Where the function is. LLVM takes 42 MB, so it is asked only about what we do not know ourselves. Raises
    `UnusableObjectError`."""
    try:
        return function_in(code, name)
    except UnknownObjectError:
        return linked_by_llvm(code, name)


def linked_by_llvm(code: bytes, name: str) -> int:
    from llvmlite import binding as llvm  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - it has none

    linker: Any = llvm
    engine: Any = linker.create_mcjit_compiler(linker.parse_assembly(""), target_machine())
    engine.add_object_file(linker.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address(name)
    if not address:
        raise UnusableObjectError(f"it has no function {name}")
    _ENGINES.append(engine)
    return address


def target_machine() -> Any:
    """What LLVM compiles for: this machine."""
    from llvmlite import binding  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - it has none

    llvm: Any = binding
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host: Any = llvm.Target.from_default_triple()
    return host.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def _toolchain() -> str:
    return toolchain()


def _source(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)
