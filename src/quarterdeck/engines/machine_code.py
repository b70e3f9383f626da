"""Python functions over addresses, compiled to machine code once on a machine, and then loaded without the compiler.

The compiler takes seconds to import and a hundred megabytes; loading what it made takes neither. Compiled code is kept
beside the source, or in the user's cache if that place cannot be written. What it was made of and for which processor
is in its name, so that no other is ever taken; its digest is in the file, so that a broken one is made again.
"""

import contextlib
import ctypes
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

_FORMAT: Final = b"1"
_DIGEST_BYTES: Final = 32
_LOADED: Final[dict[tuple[str, str], tuple[Any, Callable[[int], None]]]] = {}
_LOCK: Final = threading.Lock()


def load(module: str, name: str, sources: tuple[str, ...] = ()) -> Callable[[int], None]:
    """The function of this name in a module, which takes an address. `sources` are other modules that decide what it
    does. The first time on a machine it has to be compiled, which takes some seconds."""
    with _LOCK:
        if (module, name) not in _LOADED:
            file = _file_name(name, (module, *sources))
            code = _kept(module, file)
            if code is None:
                code = _compiled(module, name)
                _keep(module, file, code)
            _LOADED[module, name] = _linked(code, name)
        return _LOADED[module, name][1]


def is_ready(module: str, name: str, sources: tuple[str, ...] = ()) -> bool:
    """Whether loading it will not have to wait for the compiler."""
    return (module, name) in _LOADED or _kept(module, _file_name(name, (module, *sources))) is not None


def _file_name(name: str, modules: tuple[str, ...]) -> str:
    digest = hashlib.sha256(_FORMAT)
    for part in (llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()):
        digest.update(part.encode() + b"\0")
    for module in modules:
        digest.update(_source(module).read_bytes())
    return f"{name}.{digest.hexdigest()[:32]}.o"


def _source(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def _folders(module: str) -> Iterator[Path]:
    yield _source(module).parent / "__pycache__"
    with contextlib.suppress(RuntimeError):  # there is no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quarterdeck"


def _kept(module: str, file: str) -> bytes | None:
    for folder in _folders(module):
        with contextlib.suppress(OSError):
            data = (folder / file).read_bytes()
            digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                return code
    return None


def _keep(module: str, file: str, code: bytes) -> None:
    """Where it can be written; nowhere costs the next process the time to compile it, and nothing else."""
    for folder in _folders(module):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(descriptor, "wb") as written:
                    written.write(hashlib.sha256(code).digest() + code)
                Path(temporary).replace(folder / file)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
            return


def _compiled(module: str, name: str) -> bytes:
    import numba  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - dear, and seldom needed

    compiler: Any = numba
    function: Any = getattr(import_module(module), name)
    signature = compiler.types.int64(compiler.types.int64)
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made: Any = compiler.njit(signature, **options)(function)
    parsed: Any = llvm.parse_assembly(made.inspect_llvm(made.signatures[0]))
    parsed.get_function(made.overloads[made.signatures[0]].fndesc.llvm_func_name).name = name
    return _target().emit_object(parsed)


def _linked(code: bytes, name: str) -> tuple[Any, Callable[[int], None]]:
    engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    # As numba has it: places for the result and for an error, and then the arguments.
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call: Any = prototype(engine.get_function_address(name))

    def function(address: int) -> None:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = call(ctypes.byref(result), ctypes.byref(error), address)
        assert status == 0, f"{name} ended with {status}"

    return engine, function


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
