"""Records of NDJSON of which only some fields are wanted: DuckDB takes them out while it checks the line, which saves
parsing it a second time.

A bad line is an error here, and an object that has a key twice too: whoever asked has to ask again by lines.
"""

import glob
from collections.abc import Iterator, Sequence
from typing import assert_never

from quarterdeck.recruiter.engine.conditions import atoms_of, compare_time, compare_value
from quarterdeck.recruiter.engine.fields import NOTHING, paths_of, pointer_of
from quarterdeck.recruiter.engine.plan import Part, Plan
from quarterdeck.recruiter.engine.sql import Parameters, Sql, identifier
from quarterdeck.recruiter.engine.values import Value, of_json
from quarterdeck.recruiter.language import ast
from quarterdeck.recruiter.language.ast import Compare, Contains, Op, TimeRange
from quarterdeck.recruiter.language.fields import stage_fields


class ColumnRecords:
    """Fields of lines of some files. `time_field` names the field with a record's time, if there is one."""

    def __init__(
        self, paths: Sequence[str], names: Sequence[str], time_field: str | None, parameters: Parameters
    ) -> None:
        self._paths = paths
        self._time_field = time_field
        self._parameters = parameters
        self._columns = list(dict.fromkeys(_columns_of([*names, *([] if time_field is None else [time_field])])))

    @property
    def is_read_twice(self) -> bool:
        return False

    @property
    def marked(self) -> list[str]:
        return []

    def matched(self, condition: Sql, names: Sequence[str], *, line: bool, time: bool) -> tuple[Sql, dict[str, Value]]:
        """As of lines; there is no `line` to ask for."""
        assert not line
        fields = {name: f"f{number}" for number, name in enumerate(dict.fromkeys(names))}
        columns = [
            "0::TINYINT AS mark",
            "NULL::VARCHAR AS file",
            *([f"{self._time.time_us} AS time_us"] if time else []),
            *(f"{self._json(name)} AS {field}" for name, field in fields.items()),
        ]
        sql = f"SELECT {', '.join(columns)} FROM ({self._source}) WHERE {condition}"
        return sql, {name: of_json(field) for name, field in fields.items()}

    def having_sql(self, name: str) -> Sql:
        raise NotImplementedError(name)  # by lines it is faster

    def value(self, name: str) -> Value:
        return of_json(self._json(name))

    def compare(self, compare: Compare) -> Sql:
        return f"({compare_value(self.value(compare.field.name), compare, self._parameters)})"

    def contains(self, value: ast.Value) -> Sql:
        raise NotImplementedError(value)  # see `names_by_columns`

    def is_within(self, start_us: int | None, end_us: int | None) -> Sql:
        return compare_time(self._time.time_us, start_us, end_us, self._parameters)

    @property
    def _source(self) -> Sql:
        paths = self._parameters.add([glob.escape(path) for path in self._paths])
        types = self._parameters.add(dict.fromkeys(self._columns, "JSON"))
        return f"""SELECT * FROM read_json({paths}, columns = {types}, records = 'true', ignore_errors = false,
            format = 'newline_delimited', compression = 'uncompressed')"""

    @property
    def _time(self) -> Value:
        return NOTHING if self._time_field is None else self.value(self._time_field)

    def _json(self, name: str) -> Sql:
        places: list[Sql] = []
        for first, *within in paths_of(name):
            place = f"{identifier(first)}::VARCHAR"
            if within:
                pointer = self._parameters.add(pointer_of(within))
                place = f"nullif(json_extract({place}, {pointer})::VARCHAR, 'null')"
            places.append(place)
        return places[0] if len(places) == 1 else f"coalesce({', '.join(places)})"


def names_by_columns(plan: Plan, time_field: str | None) -> list[str] | None:
    """The fields that a search reads, if reading them is enough and the better way: not when words are looked for in
    whole lines, and not when a comparison can be ruled out by the line as it stands."""
    stage = plan.cuts[0] if plan.cuts else plan.stage
    atoms = list(atoms_of(plan.search.condition))
    if stage is None or not (plan.cuts or plan.part is Part.GROUPS) or not all(map(_suits, atoms)):
        return None
    names = [field.name for field in stage_fields(stage)]
    names += [atom.field.name for atom in atoms if isinstance(atom, Compare)]
    columns = set(_columns_of([*names, *([] if time_field is None else [time_field])]))
    # DuckDB takes names that differ in case only for one, and gives a name to what has none.
    is_clear = "" not in columns and len({column.casefold() for column in columns}) == len(columns)
    return names if names and is_clear else None


def _columns_of(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield from (path[0] for path in paths_of(name))


def _suits(atom: Contains | Compare | TimeRange) -> bool:
    match atom:
        case TimeRange():
            return True
        case Contains():
            return False
        case Compare():
            return atom.op is not Op.EQUAL or isinstance(atom.value, ast.Number)
        case _:
            assert_never(atom)
