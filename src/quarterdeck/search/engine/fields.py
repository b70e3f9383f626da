"""Fields of records that are lines of JSON.

A name with dots is the field of that name or, where there is none or it is null, the rest of the name within the object
that its first part names. Where that is a list, a number names an element, from 0.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.search.engine.sql import ABSENT, Parameters, Sql
from quarterdeck.search.engine.values import Value, of_json, of_text

LINE: Final[Sql] = "line"
"""The column of the lines."""


def paths_of(name: str) -> list[tuple[str, ...]]:
    """Where a field may be, the first place first.

    >>> paths_of("a.b.c")
    [('a.b.c',), ('a', 'b.c'), ('a', 'b', 'c')]
    """
    parts = name.split(".")
    return [(*parts[:depth], ".".join(parts[depth:])) for depth in range(len(parts))]


def pointer_of(path: Sequence[str]) -> str:
    """A JSON pointer (RFC 6901), which can name every key.

    >>> pointer_of(("a/b", "c~d"))
    '/a~1b/c~0d'
    """
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


class FieldColumns:
    """Fields of lines that were made by a stage, all with one parse. They are columns of a subquery."""

    def __init__(self, parameters: Parameters, names: Iterable[str]) -> None:
        self._columns = {name: f"f{number}" for number, name in enumerate(dict.fromkeys(names))}
        pointers = [pointer_of(path) for name in self._columns for path in paths_of(name)]
        self._places = parameters.add(pointers) if pointers else ""

    def of_lines(self, others: Sequence[Sql], rows: Sql) -> Sql:
        """These columns of a query that has lines, and the columns of the fields beside them."""
        if not self._columns:
            return f"SELECT {', '.join(others) or LINE} FROM ({rows})"
        position = 0
        selected: list[Sql] = []
        for name, column in self._columns.items():
            places: list[Sql] = []
            for _ in paths_of(name):
                position += 1
                places.append(f"nullif(found[{position}]::VARCHAR, 'null')")
            selected.append(f"{first_of(places)} AS {column}")
        names = ", ".join(others)
        inner = ", ".join([*others, f"json_extract({LINE}, {self._places}) AS found"])
        return f"SELECT {', '.join([*([names] if names else []), *selected])} FROM (SELECT {inner} FROM ({rows}))"

    def value(self, name: str) -> Value:
        return of_json(self._columns[name])

    def without(self, rows: Sql) -> Sql:
        """Rows without the columns of the fields."""
        return f"SELECT * EXCLUDE ({', '.join(self._columns.values())}) FROM ({rows})" if self._columns else rows


def first_of(places: list[Sql]) -> Sql:
    return places[0] if len(places) == 1 else f"coalesce({', '.join(places)})"


NOTHING: Final = of_text(ABSENT, ABSENT)
"""A field that no record has."""
