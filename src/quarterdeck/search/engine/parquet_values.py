"""Values of Parquet's columns by their types, with the meaning that their JSON would have.

Times are text as `to_json` writes them: `2026-11-01 12:00:00`. NaN and the infinities are the texts "NaN", "Infinity"
and "-Infinity", and no numbers. A FLOAT is the double it stands for, so that 0.1 is 0.10000000149011612.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from quarterdeck.search.engine.fields import pointer_of
from quarterdeck.search.engine.sql import Parameters, Sql
from quarterdeck.search.engine.values import INTEGER, Value, json_of_number, of_json, of_text

ColumnType: TypeAlias = Any
"""A `duckdb.sqltypes.DuckDBPyType`."""

INTEGERS: Final = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "hugeint": (-(2**127), 2**127 - 1),
    "utinyint": (0, 2**8 - 1),
    "usmallint": (0, 2**16 - 1),
    "uinteger": (0, 2**32 - 1),
    "ubigint": (0, 2**64 - 1),
    "uhugeint": (0, 2**128 - 1),
}
"""Integer types, and what fits into them."""
FLOATS: Final = frozenset({"float", "double"})
TIMES: Final = frozenset(
    {"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone", "date"}
)
_LISTS: Final = frozenset({"list", "array"})


@dataclass(frozen=True, slots=True)
class Place:
    """A value within a row: an expression, and its type."""

    sql: Sql
    type: ColumnType

    @property
    def kind(self) -> str:
        return "json" if str(self.type) == "JSON" else str(self.type.id)

    def within(self, part: str, parameters: Parameters) -> "Place | None":
        """What a key of it names; None if there can be nothing."""
        match self.kind:
            case "struct":
                children = dict(self.type.children)
                if part not in children:
                    return None
                return Place(f"struct_extract({self.sql}, {parameters.add(part)})", children[part])
            case "map" if str(dict(self.type.children)["key"]) == "VARCHAR":
                return Place(f"{self.sql}[{parameters.add(part)}]", dict(self.type.children)["value"])
            case "json":
                return Place(f"json_extract({self.sql}, {parameters.add(pointer_of((part,)))})", self.type)
            case kind if kind in _LISTS and part.isascii() and part.isdigit() and len(part) < 10:
                return Place(f"{self.sql}[{int(part) + 1}]", dict(self.type.children)["child"])
            case _:
                return None


def value_of(place: Place, parameters: Parameters) -> Value:
    sql, kind = place.sql, place.kind
    is_there = f"{sql} IS NOT NULL"
    if kind == "varchar":
        return of_text(sql, f"to_json({sql})::VARCHAR")
    if kind in INTEGERS:
        text, number, integer = f"{sql}::VARCHAR", f"{sql}::DOUBLE", f"TRY_CAST({sql} AS {INTEGER})"
        return Value(text, text, number, integer, is_there)
    if kind in FLOATS:
        number, integer = f"{sql}::DOUBLE", f"NULL::{INTEGER}"
        text = json_of_number(number)
        return Value(text, f"trim({text}, '\"')", number, integer, is_there)
    if kind == "decimal":
        integer = f"TRY_CAST({sql} AS {INTEGER})" if dict(place.type.children)["scale"] == 0 else f"NULL::{INTEGER}"
        text, number = f"to_json({sql})::VARCHAR", f"{sql}::DOUBLE"
        return Value(text, text, number, integer, is_there)
    if kind == "json":
        return of_json(f"nullif({sql}::VARCHAR, 'null')")
    value = of_json(f"CASE WHEN {is_there} THEN to_json({in_json(place, parameters)})::VARCHAR END")
    if kind in TIMES:
        return replace(value, native_time_us=f"CASE WHEN isfinite({sql}) THEN epoch_us({sql}) END")
    return value


def in_json(place: Place, parameters: Parameters) -> Sql:
    """An expression that `to_json` makes valid JSON of: every number in it is one that JSON has."""
    sql, kind = place.sql, place.kind
    if not _may_be_infinite(place.type):
        return sql
    if kind in FLOATS:
        return f"({json_of_number(f'{sql}::DOUBLE')})::JSON"
    children = dict(place.type.children)
    if kind in _LISTS:
        return f"list_transform({sql}, lambda x: {in_json(Place('x', children['child']), parameters)})"
    if kind == "map":
        values = f"list_transform(map_values({sql}), lambda x: {in_json(Place('x', children['value']), parameters)})"
        return f"map(map_keys({sql}), {values})"
    fields: list[Sql] = []
    for name, child in children.items():
        part = Place(f"struct_extract({sql}, {parameters.add(name)})", child)
        fields.append(f"{parameters.add(name)}, {in_json(part, parameters)}")
    return f"CASE WHEN {sql} IS NOT NULL THEN json_object({', '.join(fields)}) END"


def _may_be_infinite(kind: ColumnType) -> bool:
    if str(kind.id) in FLOATS:
        return True
    if str(kind.id) not in {*_LISTS, "map", "struct"}:
        return False
    return any(_may_be_infinite(child) for name, child in kind.children if name != "size")
