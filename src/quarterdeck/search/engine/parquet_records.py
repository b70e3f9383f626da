"""Records that are rows of Parquet files of one schema: how DuckDB reads them, and what conditions on them are.

A comparison of a column keeps the column's own type wherever that means the same as comparing its text, so that DuckDB
can pass over row groups by their statistics.
"""

import glob
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from functools import cache
from typing import Final, assert_never

import duckdb
from duckdb.sqltypes import VARCHAR

from quarterdeck.search.engine.conditions import COMPARISONS, compare_time, compare_value
from quarterdeck.search.engine.fields import NOTHING, paths_of
from quarterdeck.search.engine.parquet_values import FLOATS, INTEGERS, ColumnType, Place, in_json, value_of
from quarterdeck.search.engine.patterns import escaped, literal, of_glob
from quarterdeck.search.engine.sql import ABSENT, Parameters, Sql, all_of, identifier
from quarterdeck.search.engine.values import Value
from quarterdeck.search.language import ast
from quarterdeck.search.language.ast import Compare, Op

_TIMES_US: Final = {"timestamp": "make_timestamp({})", "timestamp with time zone": "make_timestamp({})::TIMESTAMPTZ"}
_FARTHEST_US: Final = 9 * 10**18
_EQUALITIES: Final = (Op.EQUAL, Op.NOT_EQUAL)
_LESS: Final = (Op.LESS, Op.LESS_OR_EQUAL)
_VARCHAR: Final[ColumnType] = VARCHAR


@cache
def _json() -> ColumnType:
    """Asking DuckDB for it starts threads, which an engine's process must not have before it is forked."""
    return duckdb.sqltype("JSON")


def columns_of(connection: duckdb.DuckDBPyConnection, path: str) -> dict[str, ColumnType]:
    """The columns of a file, by name."""
    parameters = Parameters()
    relation = connection.sql(_source_sql([path], parameters), params=parameters.values)
    return dict(zip(relation.columns, relation.types, strict=True))


class ParquetRecords:
    """Rows of some files. `time_field` names the field with a record's time, if there is one."""

    def __init__(
        self,
        paths: Sequence[str],
        columns: Mapping[str, ColumnType],
        time_field: str | None,
        parameters: Parameters,
    ) -> None:
        self._paths = paths
        self._columns = columns
        self._time_field = time_field
        self._parameters = parameters

    @property
    def is_read_twice(self) -> bool:
        return True

    @property
    def source(self) -> Sql:
        return _source_sql(self._paths, self._parameters)

    def having_sql(self, name: str) -> Sql:
        """Something for each record that has a field."""
        return f"SELECT 1 FROM ({self.source}) WHERE {self.value(name).is_there}"

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """As of lines."""
        values: dict[str, Value] = {}
        fields: list[Sql] = []
        for number, name in enumerate(dict.fromkeys(names)):
            place = self._place(name)
            fields.append(f"{place.sql} AS f{number}")
            values[name] = value_of(Place(f"f{number}", place.type), self._parameters)
        columns = [
            *([f"{self._line} AS line"] if line else []),
            *([f"{self._time.time_us} AS time_us"] if time else []),
            *fields,
        ]
        return f"SELECT {', '.join(columns) or '1'} FROM ({self.source}) WHERE {condition}", values

    def value(self, name: str) -> Value:
        return value_of(self._place(name), self._parameters)

    def compare(self, compare: Compare) -> Sql:
        place = self._place(compare.field.name)
        native = self._compare_native(place, compare.op, compare.value)
        if native is not None:
            return native
        return f"({compare_value(value_of(place, self._parameters), compare, self._parameters)})"

    def contains(self, value: ast.Value) -> Sql:
        match value:
            case ast.Text() | ast.Number():
                pattern = "(?i)" + "|".join(dict.fromkeys(literal(form) for form in (value.text, escaped(value.text))))
            case ast.Glob():
                pattern = "(?i)" + of_glob(value.pattern.strip("*"))
            case ast.Regex():
                pattern = value.pattern
            case _:
                assert_never(value)
        return f"regexp_matches({self._line}, {self._parameters.add(pattern)})"

    def is_within(self, start_us: int | None, end_us: int | None) -> Sql:
        place = None if self._time_field is None else self._place(self._time_field)
        if place is None or place.kind not in _TIMES_US:
            return compare_time(self._time.time_us, start_us, end_us, self._parameters)
        moment = _TIMES_US[place.kind]
        parts = [f"isfinite({place.sql})"]
        for sign, end in ((">=", start_us), ("<", end_us)):
            if end is not None:
                bound = self._parameters.add(max(-_FARTHEST_US, min(_FARTHEST_US, end)))
                parts.append(f"{place.sql} {sign} {moment.format(bound)}")
        return all_of(parts)

    @property
    def _line(self) -> Sql:
        pairs = [
            f"{self._parameters.add(name)}, {in_json(Place(identifier(name), kind), self._parameters)}"
            for name, kind in self._columns.items()
        ]
        return f"json_object({', '.join(pairs)})::VARCHAR"

    @property
    def _time(self) -> Value:
        return NOTHING if self._time_field is None else self.value(self._time_field)

    def _place(self, name: str) -> Place:
        """Where the field is. A field that may be in two places is the first of them that has a value, as JSON."""
        places = [place for path in paths_of(name) if (place := self._at(path)) is not None]
        if not places:
            return Place(ABSENT, _VARCHAR)
        if len(places) == 1:
            return places[0]
        values = [value_of(place, self._parameters).json for place in places]
        return Place(f"coalesce({', '.join(values)})", _json())

    def _at(self, path: Sequence[str]) -> Place | None:
        if path[0] not in self._columns:
            return None
        place: Place | None = Place(identifier(path[0]), self._columns[path[0]])
        for part in path[1:]:
            place = None if place is None else place.within(part, self._parameters)
        return place

    def _compare_native(self, place: Place, op: Op, value: ast.Value) -> Sql | None:
        """A comparison in the column's own type, if there is one that means the same."""
        match value:
            case ast.Text() if place.kind == "boolean" and value.text in ("true", "false") and op in _EQUALITIES:
                return f"{place.sql} {COMPARISONS[op]} {value.text}"
            case ast.Number() if place.kind in INTEGERS:
                return self._compare_integer(place, op, value.value)
            case ast.Number() if place.kind in FLOATS:
                compared = f"{place.sql} {COMPARISONS[op]} {self._parameters.add(float(value.value))}::DOUBLE"
                return compared if op in _EQUALITIES else f"({compared} AND isfinite({place.sql}))"
            case ast.Number() if place.kind == "decimal":
                return self._compare_decimal(place, op, value.value)
            case _:
                return None

    def _compare_integer(self, place: Place, op: Op, wanted: Decimal) -> Sql:
        least, greatest = INTEGERS[place.kind]
        below = wanted.to_integral_value(ROUND_FLOOR)
        if below != wanted:
            if op in _EQUALITIES:
                return "false" if op is Op.EQUAL else f"{place.sql} IS NOT NULL"
            # Less than 1.5 is at most 1, and more than 1.5 is more than 1.
            op = Op.LESS_OR_EQUAL if op in (Op.LESS, Op.LESS_OR_EQUAL) else Op.GREATER
        if least <= below <= greatest:
            return f"{place.sql} {COMPARISONS[op]} {self._parameters.add(str(int(below)))}::{place.type}"
        if op is Op.EQUAL:
            return "false"
        is_true = op is Op.NOT_EQUAL or (op in _LESS) == (below > greatest)
        return f"{place.sql} IS NOT NULL" if is_true else "false"

    def _compare_decimal(self, place: Place, op: Op, wanted: Decimal) -> Sql | None:
        shape = dict(place.type.children)
        exponent = wanted.normalize().as_tuple().exponent
        fits = isinstance(exponent, int) and -exponent <= shape["scale"] and wanted.adjusted() < 37 - shape["scale"]
        if not fits:
            return None
        bound = f"{self._parameters.add(format(wanted, 'f'))}::DECIMAL(38,{shape['scale']})"
        if wanted.adjusted() < shape["precision"] - shape["scale"]:
            bound = f"{self._parameters.add(format(wanted, 'f'))}::{place.type}"
        return f"{place.sql} {COMPARISONS[op]} {bound}"


def _source_sql(paths: Sequence[str], parameters: Parameters) -> Sql:
    # A path is a pattern to DuckDB.
    escaped_paths = parameters.add([glob.escape(path) for path in paths])
    return f"SELECT * FROM read_parquet({escaped_paths}, hive_partitioning = false)"
