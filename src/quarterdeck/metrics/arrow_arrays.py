"""NumPy arrays as Arrow arrays and back, without a copy where their forms allow it: the border to pyarrow, which has
no type information.

Lists have elements named `element`, as Parquet's own rules want it: a file of them needs no Arrow schema beside it.
"""

from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.compute as _compute  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import F64, I64, Bool, totals_before

pa: Any = _pyarrow
_pc: Any = _compute

Array: TypeAlias = Any
"""A `pyarrow.Array`."""
DataType: TypeAlias = Any
"""A `pyarrow.DataType`."""
RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""

Scalar = TypeVar("Scalar", bound=np.generic)

_MOST_ELEMENTS: Final = 2**31 - 1
"""Offsets of lists have 32 bits."""


def list_type(element: DataType) -> DataType:
    """The type of lists of something."""
    return pa.list_(pa.field("element", element))


def numbers(values: NDArray[Scalar], valid: Bool | None = None) -> Array:
    """All numbers or flags of an array, row by row; null where they are not valid."""
    flat = np.ascontiguousarray(values).reshape(-1)
    validity = None if valid is None or valid.all() else _bits(valid)
    data = _bits(flat) if flat.dtype == np.bool_ else pa.py_buffer(flat)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), flat.size, [validity, data])


def lists(offsets: I64, elements: Array) -> Array:
    """Lists of elements: list `i` has those from `offsets[i]` to before `offsets[i + 1]`."""
    if offsets[-1] > _MOST_ELEMENTS:
        raise ValueError(f"{offsets[-1]} elements are too many for one batch: evaluate in smaller blocks")
    places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(list_type(elements.type), offsets.size - 1, [None, places], children=[elements])


def rows_as_lists(values: NDArray[Scalar], valid: Bool | None = None) -> Array:
    """One list for each row of a two-dimensional array, with nulls where it is not valid."""
    return lists(even_offsets(*values.shape), numbers(values, valid))


def even_offsets(rows: int, columns: int) -> I64:
    """Where rows of the same length begin."""
    return np.arange(rows + 1, dtype=np.int64) * columns


def elements_of(column: Array) -> tuple[I64, Array]:
    """The offsets of lists and all their elements; no list is as good as an empty one."""
    return totals_before(_pc.list_value_length(column).fill_null(0).to_numpy()), column.flatten()


def validity(array: Array) -> Bool | None:
    """Which are not null; None: all of them."""
    return None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)


def floats(array: Array) -> tuple[F64, Bool | None]:
    """The numbers of an array of doubles, 0 where it is null, and which of them are valid; None: all."""
    valid = validity(array)
    found = _words(array, np.float64)
    return (found if valid is None else np.where(valid, found, 0.0)), valid


def whole_numbers(array: Array) -> I64:
    """The numbers of an array of int64; 0 where it is null."""
    valid = validity(array)
    found = _words(array, np.int64)
    return found if valid is None else np.where(valid, found, 0)


def flags(array: Array) -> Bool:
    """The flags of an array without nulls."""
    return array.to_numpy(zero_copy_only=False)


def _words(array: Array, dtype: type[Scalar]) -> NDArray[Scalar]:
    """What lies in the memory of an array of numbers with 64 bits, which may be anything where it is null."""
    return np.frombuffer(array.buffers()[1], dtype, len(array), 8 * array.offset) if len(array) else np.zeros(0, dtype)


def _bits(flags: NDArray[Any]) -> Any:
    return pa.py_buffer(np.packbits(flags.reshape(-1), bitorder="little"))
