"""How compiled code is called with arrays and numbers: a row of words in memory.

The words are the address of what the code returns, NumPy's type of arrays, and then the arguments: a number is itself,
an array is the address of its object, where the code finds what NumPy keeps there. To ask NumPy in Python for an
address and a shape takes longer than many a kernel runs. The code looks first whether each array is what it was
compiled for, and says which one is not.
"""

import ctypes
import struct
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

WORD_BYTES: Final = 8
RESULTS: Final = 0
ARRAY_TYPE: Final = 1
FIRST: Final = 2
"""Places of words; the arguments begin at the last."""

# Where an array's object has what: https://numpy.org/doc/stable/reference/c-api/types-and-structures.html
TYPE_AT: Final = 8
DATA_AT: Final = 16
NDIM_AT: Final = 24
SHAPE_AT: Final = 32
DTYPE_AT: Final = 56
FLAGS_AT: Final = 64
NUMBER_AT: Final = 28
"""In the object of a dtype: the number of its kind."""
ORDER_AT: Final = 26
"""And its order of bytes, which is not to be `FOREIGN`."""
FOREIGN: Final = ord(">")
WANTED_FLAGS: Final = 0x0001 | 0x0100
"""C-contiguous and aligned."""

_PLAIN: Final[dict[object, str]] = {int: "q", float: "d", bool: "?"}
Code: TypeAlias = Callable[[bytes], int]
"""Gets the words. 0 when all went well, n when the n-th argument is not what it should be, else negative."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What the code takes in one place: a number if there is no `ndim`."""

    kind: str
    """As NumPy writes it: `f8`. Of a number as `struct` does."""
    ndim: int | None = None

    @property
    def text(self) -> str:
        return self.kind if self.ndim is None else f"{self.kind}:{self.ndim}"

    @staticmethod
    def of_text(text: str) -> "Argument":
        kind, colon, ndim = text.partition(":")
        return Argument(kind, int(ndim) if colon else None)


@dataclass(frozen=True, slots=True)
class Form:
    """What a compiled function takes and returns."""

    arguments: tuple[Argument, ...]
    results: int
    """How many integers: none, one, or a tuple of several."""

    @property
    def text(self) -> str:
        """For the name of the file, and for who compiles it."""
        return " ".join([*(argument.text for argument in self.arguments), f"-> {self.results}"])

    @staticmethod
    def of_text(text: str) -> "Form":
        arguments, _, results = text.partition("-> ")
        return Form(tuple(map(Argument.of_text, arguments.split())), int(results))


def form_of(function: Callable[..., Any], arguments: Sequence[object]) -> Form:
    """From what the function is annotated with, and the dimensions of the arrays that it is called with first."""
    hints = typing.get_type_hints(function)
    returned = hints.pop("return")
    if len(hints) != len(arguments):
        raise TypeError(f"{function.__qualname__} takes {len(hints)} annotated arguments, not {len(arguments)}")
    taken = [_argument(hint, given) for hint, given in zip(hints.values(), arguments, strict=True)]
    results = 0 if returned is type(None) else len(typing.get_args(returned)) or 1
    return Form(tuple(taken), results)


def _argument(hint: object, given: object) -> Argument:
    plain = _PLAIN.get(hint)
    if plain is not None:
        return Argument(plain)
    _, dtype = typing.get_args(hint)
    (scalar,) = typing.get_args(dtype)
    return Argument(np.dtype(scalar).str[1:], np.ndim(typing.cast("Any", given)))


class ArrayCall:
    """A compiled function as one of Python. Any thread may call it; it does not hold the interpreter's lock."""

    def __init__(self, name: str, form: Form, code: Code) -> None:
        self._name = name
        self._form = form
        self._code = code
        self._are_arrays = tuple(argument.ndim is not None for argument in form.arguments)
        self._pack = struct.Struct("=qq" + "".join(_word(one) for one in form.arguments)).pack
        self._results = ctypes.c_int64 * form.results

    def __call__(self, *arguments: Any) -> Any:
        status, results = self._called(arguments)
        if status > 0:
            # As after unpickling, which makes a dtype of its own: an array that is right after all.
            arguments = tuple(map(self._fitting, self._form.arguments, arguments, range(len(arguments))))
            status, results = self._called(arguments)
            if status > 0:
                self._refuse(status - 1)
        if status:
            raise MemoryError(f"{self._name} found no memory for what it puts aside")
        match self._form.results:
            case 0:
                return None
            case 1:
                return results[0]
            case _:
                return tuple(results)

    def _called(self, arguments: Sequence[Any]) -> tuple[int, Any]:
        if len(arguments) != len(self._are_arrays):
            raise TypeError(f"{self._name} takes {len(self._are_arrays)} arguments, not {len(arguments)}")
        results = self._results()
        words = [id(one) if is_array else one for is_array, one in zip(self._are_arrays, arguments, strict=True)]
        return self._code(self._pack(ctypes.addressof(results), _ARRAY_TYPE, *words)), results

    def _fitting(self, wanted: Argument, given: Any, place: int) -> Any:
        if wanted.ndim is None:
            return given
        if not isinstance(given, np.ndarray) or given.dtype != np.dtype(wanted.kind):  # pyright: ignore[reportUnknownMemberType]
            self._refuse(place)
        array: Any = given.view(np.ndarray)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return array.view(np.dtype(wanted.kind))

    def _refuse(self, place: int) -> typing.NoReturn:
        wanted = self._form.arguments[place]
        raise TypeError(
            f"argument {place + 1} of {self._name} has to be a C-contiguous, aligned array of {wanted.kind} with "
            f"{wanted.ndim} dimensions"
        )


def _word(argument: Argument) -> str:
    if argument.ndim is not None:
        return "q"
    return "?7x" if argument.kind == "?" else argument.kind


_ARRAY_TYPE: Final = id(np.ndarray)
