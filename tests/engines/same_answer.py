"""Whether two answers are the same: names, types and rows."""

import math
from typing import Any


def difference(got: Any, wanted: Any, *, is_sorted: bool, is_cut: bool = False, is_about: bool = False) -> str | None:
    """In words. Rows without an order are compared without one, cut ones by their number; `is_about` is for numbers
    that DuckDB itself rounds in one way or another, by how its threads share the rows."""
    if got.schema.remove_metadata() != wanted.schema.remove_metadata():
        return f"columns: {got.schema.remove_metadata()}\nwanted: {wanted.schema.remove_metadata()}"
    if got.num_rows != wanted.num_rows:
        return f"rows: {got.num_rows}, wanted: {wanted.num_rows}"
    if is_cut:
        return None
    for mine, theirs in zip(_rows(got, is_sorted), _rows(wanted, is_sorted), strict=True):
        if not all(_same(left, right, is_about) for left, right in zip(mine, theirs, strict=True)):
            return f"row: {mine}\nwanted: {theirs}"
    return None


def _rows(table: Any, is_sorted: bool) -> list[tuple[Any, ...]]:
    names = [f"c{number}" for number in range(table.num_columns)]
    rows = [tuple(map(_comparable, row.values())) for row in table.rename_columns(names).to_pylist()]
    return rows if is_sorted else sorted(rows, key=_key)


def _key(row: tuple[Any, ...]) -> str:
    return repr([f"{value:.12g}" if isinstance(value, float) else value for value in row])


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # no -0.0
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_comparable(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _same(left: object, right: object, is_about: bool) -> bool:
    if is_about and isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if is_about and isinstance(left, list) and isinstance(right, list):
        both: list[tuple[object, object]] = list(zip(left, right, strict=False))  # pyright: ignore[reportUnknownArgumentType]
        return len(left) == len(right) and all(_same(mine, theirs, is_about) for mine, theirs in both)  # pyright: ignore[reportUnknownArgumentType]
    return left == right
