"""Python functions over addresses, compiled to machine code once on a machine, and then loaded without the compiler.

The compiler takes seconds to import and a hundred megabytes, so it has a process of its own, which is this module as a
program. Loading what it made takes neither. Where compiled code is kept, and that it is taken only from where nobody
else can write, is the affair of `code_folder`. What it was made of and for
which processor is in its name, so that no other is ever taken; its digest is in the file, so that a broken one is made
again.
"""

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import llvmlite  # pyright: ignore[reportMissingTypeStubs] - it has none
from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.engines.code_folder import CodeFolder, code_folders, tell_unkept

llvm: Final[Any] = binding
_FORMAT: Final = b"1"
_DIGEST_BYTES: Final = 32
_LOCK: Final = threading.Lock()
_LOADED: Final[dict["MachineCode", "Callable[[int], None]"]] = {}
_ENGINES: Final[list[Any]] = []
"""What holds the loaded code."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A function that takes an address, and what decides what it does."""

    module: str
    name: str
    sources: tuple[str, ...] = ()
    """Other modules that are compiled into it."""
    file_name: str = field(init=False)
    """Of the compiled form for this machine, of the sources as they are now: those that this process has loaded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file_name", self._name())

    def load(self) -> Callable[[int], None]:
        """The function. The first time on a machine it has to be compiled, which takes some ten seconds."""
        with _LOCK:
            if self not in _LOADED:
                _LOADED[self] = _linked(self._kept() or self._made(), self.name)
            return _LOADED[self]

    @property
    def is_ready(self) -> bool:
        """Whether loading it need not wait for the compiler."""
        return self in _LOADED or self._kept() is not None

    def folders(self) -> Iterator[CodeFolder]:
        """Where it may be, the best first."""
        yield from code_folders(_source(self.module))

    def _name(self) -> str:
        digest = hashlib.sha256(_FORMAT)
        for part in (llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()):
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

    def _made(self) -> bytes:
        """Compiled, by one process at a time: others find what it has kept."""
        with self._turn():
            code = self._kept()
            if code is None:
                # Not from the folder that somebody happens to be in (-P), and not of sources that have changed since.
                command = [sys.executable, "-P", "-m", __spec__.name, self.file_name, self.module, self.name]
                code = subprocess.run([*command, *self.sources], stdout=subprocess.PIPE, check=True).stdout
                self._keep(code)
            return code

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


def compiled(module: str, name: str) -> bytes:
    """An object file with a function of a module."""
    import numba  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - dear, and seldom needed

    compiler: Any = numba
    function: Any = getattr(import_module(module), name)
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made: Any = compiler.njit(compiler.types.int64(compiler.types.int64), **options)(function)
    (signature,) = made.signatures
    parsed: Any = llvm.parse_assembly(made.inspect_llvm(signature))
    parsed.get_function(made.overloads[signature].fndesc.llvm_func_name).name = name
    return _target().emit_object(parsed)


def _linked(code: bytes, name: str) -> Callable[[int], None]:
    engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    # As numba has it: places for the result and for an error, and then the arguments.
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call: Any = prototype(engine.get_function_address(name))

    def function(address: int) -> None:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = call(ctypes.byref(result), ctypes.byref(error), address)
        assert status == 0, f"{name} ended with {status}"

    return function


def _target() -> Any:
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


def _source(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def main(file_name: str, module: str, name: str, *sources: str) -> None:
    """Writes the object file to standard output, if it is what was asked for."""
    code = compiled(module, name)
    if MachineCode(module, name, sources).file_name != file_name:
        sys.exit(f"{module} has changed since the process that asks for it was started: start that again")
    # Whoever asked may be gone, as when it was killed. Python's own stdout would complain of that once more at the end.
    with contextlib.suppress(BrokenPipeError), os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
