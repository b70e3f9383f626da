"""Functions that are compiled with the kernels that call them: which they are, and where they stand."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_PARTS: Final[dict[int, FunctionType]] = {}
"""By their ids: for as long as the process lives, so that no id comes again."""


def part_of_kernel(function: F) -> F:
    """A function that only kernels call. It stays as it is; a kernel that uses its name is compiled with it."""
    _PARTS[id(function)] = cast("FunctionType", function)
    return function


def is_part(value: object) -> bool:
    return id(value) in _PARTS


def parts_of(function: FunctionType) -> list[FunctionType]:
    """The function, and the parts that it may call, directly or not.

    They are found by the names in its module: import such a function itself, and not its module.
    """
    found = [function]
    for each in found:
        found += [part for value in each.__globals__.values() if (part := _PARTS.get(id(value))) and part not in found]
    return found


def all_parts() -> list[FunctionType]:
    """Of all modules that have been imported."""
    return list(_PARTS.values())
