"""`@kernel`: Python functions over arrays, compiled to machine code that lets go of the interpreter lock.

Compiled code is kept on disk and loaded without the compiler: only the first process on a machine waits for that, see
`engines.machine_code`. Everybody else sees the function as written.

There is one compiled form of a kernel, of the types that it is annotated with, and `warm` has made it before the first
query. So: what a kernel reads has gone through `given`, and what it writes is a new C-contiguous array; an array of
another type is an error. A kernel raises nothing by itself; for what it puts aside there may be no memory.
"""

import ctypes
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from quarterdeck.engines.array_call import ArrayCall, form_of
from quarterdeck.engines.kernel_parts import all_parts, part_of_kernel, parts_of
from quarterdeck.engines.machine_code import MachineCode

__all__ = ["given", "kernel", "on_made", "part_of_kernel", "warms"]

F = TypeVar("F", bound=Callable[..., Any])
Scalar = TypeVar("Scalar", bound=np.generic)

_ENTRIES: Final[dict[str, "Kernel"]] = {}
_WARMERS: Final[dict[str, Callable[[], None]]] = {}
_LISTENERS: Final[list[Callable[[str, bool], None]]] = []
_CODE: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)


class Kernel:
    """A function that is compiled, or loaded, when it is called first."""

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.py_func: Final = function
        self.name: Final = f"{function.__module__}.{function.__qualname__}"
        self._call: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._call or self._loaded(arguments))(*arguments)

    @property
    def is_loaded(self) -> bool:
        return self._call is not None

    def _loaded(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        function = self.py_func
        form = form_of(function, arguments)
        sources = {part.__module__ for part in parts_of(function)} - {function.__module__}
        code = MachineCode(function.__module__, function.__name__, tuple(sorted(sources)), form.text)
        loaded = code.load()
        call = self._call = ArrayCall(self.name, form, _CODE(loaded.address))
        for tell in tuple(_LISTENERS):
            tell(self.name, loaded.was_compiled)
        return call


def kernel(function: F) -> F:
    """A kernel that Python calls. Some function marked with `warms` must call it."""
    made = Kernel(cast("FunctionType", function))
    _ENTRIES[made.name] = made
    return cast("F", made)


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


def kernels() -> tuple[Kernel, ...]:
    """Those of the modules that have been imported."""
    return tuple(_ENTRIES.values())


def given(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The array as an argument that a kernel only reads: contiguous and aligned."""
    flags = array.flags
    # Asked first, because `require` takes long: a small query comes here hundreds of times.
    return array if flags.c_contiguous and flags.aligned else np.require(array, requirements=("C", "A"))


def all_sources() -> frozenset[str]:
    """The files of all kernels that have been imported, and of what is compiled with them."""
    functions = [*(each.py_func for each in _ENTRIES.values()), *all_parts()]
    return frozenset(function.__code__.co_filename for function in functions)
