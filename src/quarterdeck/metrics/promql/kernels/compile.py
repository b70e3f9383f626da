"""`@kernel`: Python functions over arrays, compiled to machine code that lets go of the interpreter lock.

The one place that knows numba, which has no types: everybody else sees the function as written. Compiled code is kept
on disk, so that only the first process on a machine waits for the compiler. Numba keeps pickles, which run what is in
them: they are taken only from where nobody else can write, see `engines.code_folder`.

There is one compiled form of a kernel if it is always called with the same types, and then `warm` has made it before
the first query. So: what a kernel reads has gone through `given`, what it writes is a new C-contiguous array, and
numbers are of Python's int and float. What they call is compiled for types too, and never for single values: numba
would compile it anew for each constant that it is called with.
"""

import contextlib
import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numba.core import caching  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from quarterdeck.engines.code_folder import CodeFolder, code_folders, part_for, tell_unkept

F = TypeVar("F", bound=Callable[..., Any])
Scalar = TypeVar("Scalar", bound=np.generic)

_config: Final = cast("Any", numba).config
_types: Final = cast("Any", numba).types
_caching: Final = cast("Any", caching)
_ENTRIES: Final[dict[str, Any]] = {}
_WARMERS: Final[dict[str, Callable[[], None]]] = {}
_LISTENERS: Final[list[Callable[[str, bool], None]]] = []
_FUNCTIONS: Final[dict[int, FunctionType]] = {}
"""The Python function of each compiled one, by the id of the latter."""


def kernel(function: F) -> F:
    """A kernel that Python calls. Some function marked with `warms` must call it."""
    compiled = _compiled(function, no_cfunc_wrapper=True)
    _ENTRIES[f"{function.__module__}.{function.__qualname__}"] = compiled
    return compiled


def part_of_kernel(function: F) -> F:
    """A function that only kernels call: compiled with them, and without what Python needs to call it, which takes as
    long to compile as many of these functions do."""
    return _compiled(function, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    # Division by zero gives what IEEE 754 says, as in Go; and no sum may be put in another order.
    compiled = cast("Any", numba).njit(nogil=True, error_model="numpy", fastmath=False, **options)(function)
    call_template = compiled.get_call_template

    def of_types(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return call_template(tuple(_types.unliteral(each) for each in arguments), named)

    compiled.get_call_template = of_types
    compiled._cache = _Cache(function)  # noqa: SLF001 - what cache=True does, with a cache that forgives
    _FUNCTIONS[id(compiled)] = cast("FunctionType", function)
    return cast("F", compiled)


def warms(function: Callable[[], None]) -> Callable[[], None]:
    """A function that calls kernels of its module once, with little data and as queries call them."""
    _WARMERS[f"{function.__module__}.{function.__qualname__}"] = function
    return function


def on_made(tell: Callable[[str, bool], None]) -> Callable[[], None]:
    """From now on `tell` gets the name of each kernel that is there now, and whether it had to be compiled; what is
    given back ends that."""
    _LISTENERS.append(tell)
    return lambda: _LISTENERS.remove(tell)


def warmers() -> tuple[Callable[[], None], ...]:
    """The functions marked with `warms` in the modules that have been imported."""
    return tuple(_WARMERS.values())


def compiled_forms() -> dict[str, int]:
    """How many compiled forms each kernel has by now. One is right; more say that calls differ in their types."""
    return {name: len(entry.signatures) for name, entry in _ENTRIES.items()}


def given(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The array as an argument that a kernel only reads: contiguous, aligned and, whatever it was, read-only."""
    flags = array.flags
    # Asked first, because `require` takes three times as long as the rest: a small query comes here hundreds of times.
    view = (array if flags.c_contiguous and flags.aligned else np.require(array, requirements=("C", "A"))).view()
    view.flags.writeable = False
    return view


def sources(function: FunctionType) -> frozenset[str]:
    """The files that decide what a kernel does: its own, and those of the compiled functions it may call.

    They are found by the names in its module: import such a function itself, and not its module.
    """
    found = {function.__code__.co_filename}
    waiting = [function]
    while waiting:
        for value in waiting.pop().__globals__.values():
            called = _FUNCTIONS.get(id(value))
            if called is not None and called.__code__.co_filename not in found:
                found.add(called.__code__.co_filename)
                waiting.append(called)
    return frozenset(found)


def all_sources() -> frozenset[str]:
    """The files of all kernels that have been imported."""
    return frozenset(function.__code__.co_filename for function in _FUNCTIONS.values())


def folders(source: Path) -> list[CodeFolder]:
    """Where the compiled code of a source may be, the best first."""
    given = str(_config.CACHE_DIR)  # NUMBA_CACHE_DIR names it
    first = [CodeFolder(Path(given).absolute() / part_for(source))] if given else []
    return [*first, *code_folders(source)]


class KernelSource(_caching._CacheLocator):  # noqa: SLF001 - what numba asks about a function, and where it is kept
    """The source of one function. Numba alone looks only at the file of the kernel: a change in another would go
    unnoticed."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._py_file = function.__code__.co_filename

    @property
    def file(self) -> Path:
        return Path(self._py_file)

    def get_cache_path(self) -> str:
        """The first place; `_Files` knows all."""
        return str(folders(self.file)[0].path)

    def ensure_cache_path(self) -> None:
        """Folders are made when something is written."""

    def get_source_stamp(self) -> str:
        """What must be the same for compiled code on disk to be taken."""
        digest = hashlib.sha256()
        for source in sorted(sources(self._function)):
            digest.update(Path(source).read_bytes())
        return digest.hexdigest()

    def get_disambiguator(self) -> str:
        """Two functions of one name in a file differ in this."""
        return str(self._function.__code__.co_firstlineno)


class _FilesInFolder(_caching.IndexDataCacheFile):
    """What numba keeps of one function in one folder, read and written through it."""

    def __init__(self, folder: CodeFolder, name: str, stamp: str) -> None:
        super().__init__(str(folder.path), name, stamp)  # pyright: ignore[reportUnknownMemberType] - numba has no types
        self._folder = folder

    def _load_index(self) -> dict[object, str]:
        data = self._folder.read(self._index_name)
        if data is None:
            return {}
        file = io.BytesIO(data)
        if pickle.load(file) != self._version:  # noqa: S301 - from where only we can write
            return {}
        stamp, overloads = pickle.loads(file.read())  # noqa: S301
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> object:
        data = self._folder.read(name)
        if data is None:
            raise FileNotFoundError(name)
        return pickle.loads(data)  # noqa: S301 - as above

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Generator[io.BytesIO]:
        buffer = io.BytesIO()
        yield buffer
        self._folder.write(Path(filepath).name, buffer.getvalue())


class _Files:
    """What is kept of one function, in all folders. A file may be broken or not be written: that costs time, not the
    query. A process that is killed while it writes, or a disk that is full, leaves such files behind."""

    def __init__(self, source: Path, name: str, stamp: str) -> None:
        self._kept = [_FilesInFolder(folder, name, stamp) for folder in folders(source)]

    def load(self, key: object) -> object:
        """The compiled form of the first folder that has it, or None."""
        for kept in self._kept:
            try:
                found: object = kept.load(key)
            except Exception:  # noqa: BLE001 - what pickle raises over a broken file may be anything
                _flush(kept)
            else:
                if found is not None:
                    return found
        return None

    def save(self, key: object, data: object) -> None:
        """Keep a compiled form for the next process, in the first folder that takes it."""
        for kept in self._kept:
            with contextlib.suppress(OSError):
                kept.save(key, data)
                return
        tell_unkept()

    def flush(self) -> None:
        for kept in self._kept:
            _flush(kept)


def _flush(kept: _FilesInFolder) -> None:
    with contextlib.suppress(OSError):
        kept.flush()


class _Impl(_caching.CompileResultCacheImpl):
    """What numba knows of a function that it keeps. Numba would look for a place itself, and refuse to compile where it
    finds none; what it can be told of places counts for a whole process, and for what else is compiled in it."""

    def __init__(self, function: FunctionType) -> None:
        # Without that of the parent, which looks for the place.
        self._lineno = function.__code__.co_firstlineno
        self._locator = KernelSource(function)
        module = Path(function.__code__.co_filename).stem
        self._filename_base = self.get_filename_base(  # pyright: ignore[reportUnknownMemberType] - numba has no types
            f"{module}.{function.__qualname__}", getattr(sys, "abiflags", "")
        )


class _Cache(_caching.FunctionCache):
    """Numba's cache of one function, with files of ours."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # pyright: ignore[reportUnknownMemberType] - numba has no types
        impl: Any = self._impl  # pyright: ignore[reportUnknownMemberType]
        stamp: str = self._cache_file._source_stamp  # noqa: SLF001 - numba has just made it
        self._cache_file: Any = _Files(impl.locator.file, impl.filename_base, stamp)
        self._called = f"{function.__module__}.{function.__qualname__}"

    def load_overload(self, sig: object, target_context: object) -> object:
        """The compiled form for some types, or None if it has to be made."""
        try:
            found = super().load_overload(sig, target_context)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except Exception:  # noqa: BLE001 - a file that can be read, and of which no code can be made
            self._cache_file.flush()
            return None
        if found is not None:
            self._tell(compiled=False)
        return found  # pyright: ignore[reportUnknownVariableType]

    def save_overload(self, sig: object, data: object) -> None:
        """Keep a compiled form."""
        super().save_overload(sig, data)  # pyright: ignore[reportUnknownMemberType]
        self._tell(compiled=True)

    def _tell(self, *, compiled: bool) -> None:
        if self._called in _ENTRIES:
            for tell in tuple(_LISTENERS):
                tell(self._called, compiled)
