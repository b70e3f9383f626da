"""`@kernel`: Python functions over arrays, compiled to machine code that lets go of the interpreter lock.

The one place that knows numba, which has no types: everybody else sees the function as written. Compiled code is kept
on disk beside the source, or in the user's cache if that place cannot be written, so that only the first process on a
machine waits for the compiler.

There is one compiled form of a kernel if it is always called with the same types, and then `warm` has made it before
the first query. So: what a kernel reads has gone through `given`, what it writes is a new C-contiguous array, and
numbers are of Python's int and float.
"""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numba.core import caching  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Scalar = TypeVar("Scalar", bound=np.generic)

_config: Final = cast("Any", numba).config
_caching: Final = cast("Any", caching)
_ENTRIES: Final[dict[str, Any]] = {}
_WARMERS: Final[dict[str, Callable[[], None]]] = {}
_FUNCTIONS: Final[dict[int, FunctionType]] = {}
"""The Python function of each compiled one, by the id of the latter."""


def kernel(function: F) -> F:
    """A kernel that Python calls. Some function marked with `warms` must call it."""
    compiled = part_of_kernel(function)
    _ENTRIES[f"{function.__module__}.{function.__qualname__}"] = compiled
    return compiled


def part_of_kernel(function: F) -> F:
    """A function that only kernels call: compiled with them."""
    before = _config.CACHE_LOCATOR_CLASSES
    _config.CACHE_LOCATOR_CLASSES = ",".join(f"{__name__}.{name}" for name in ("InGiven", "InTree", "InHome"))
    try:
        # Division by zero gives what IEEE 754 says, as in Go; and no sum may be put in another order.
        compiled = cast("Any", numba).njit(nogil=True, error_model="numpy", fastmath=False)(function)
        compiled._cache = _Cache(function)  # noqa: SLF001 - what cache=True does, with a cache that forgives
    finally:
        _config.CACHE_LOCATOR_CLASSES = before
    _FUNCTIONS[id(compiled)] = cast("FunctionType", function)
    return cast("F", compiled)


def warms(function: Callable[[], None]) -> Callable[[], None]:
    """A function that calls kernels of its module once, with little data and as queries call them."""
    _WARMERS[f"{function.__module__}.{function.__qualname__}"] = function
    return function


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


class _Stamped:
    """Numba alone looks only at the file of the kernel: a change in another would go unnoticed."""

    def __init__(self, function: FunctionType, file: str) -> None:
        super().__init__(function, file)  # pyright: ignore[reportCallIssue]
        self._function = function

    def get_source_stamp(self) -> str:
        """What must be the same for compiled code on disk to be taken."""
        digest = hashlib.sha256()
        for source in sorted(sources(self._function)):
            digest.update(Path(source).read_bytes())
        return digest.hexdigest()


class InGiven(_Stamped, _caching.UserProvidedCacheLocator):
    """In the folder that NUMBA_CACHE_DIR names."""


class InTree(_Stamped, _caching.InTreeCacheLocator):
    """Beside the source."""


class InHome(_Stamped, _caching.UserWideCacheLocator):
    """In the user's cache."""


class _Cache(_caching.FunctionCache):
    """Numba's cache of one function, in which a file may be broken or not be written: that costs time, not the query.

    A process that is killed while it writes, or a disk that is full, leaves such files behind.
    """

    def load_overload(self, sig: object, target_context: object) -> object:
        """The compiled form for some types, or None if it has to be made."""
        try:
            return super().load_overload(sig, target_context)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except Exception:  # noqa: BLE001 - what pickle raises over a broken file may be anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """Keep a compiled form for the next process, if there is room."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)  # pyright: ignore[reportUnknownMemberType]
