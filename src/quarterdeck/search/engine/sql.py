"""What SQL is made of: fixed fragments of ours, and parameters.

No text of a user becomes SQL: values are parameters, and the name of a column goes through `identifier`. DuckDB knows
the parameters when it plans, so that they cost nothing per row and filters with them reach the statistics of Parquet.
"""

from typing import Final, TypeAlias

Sql: TypeAlias = str
"""An expression or a query."""
Parameter: TypeAlias = "str | int | float | list[str] | dict[str, str]"

ABSENT: Final[Sql] = "NULL::VARCHAR"


class Parameters:
    """The parameters of one query, by name."""

    def __init__(self) -> None:
        self.values: Final[dict[str, Parameter]] = {}

    def add(self, value: Parameter) -> Sql:
        """How the query calls it. The same value is one parameter."""
        for name, known in self.values.items():
            if type(known) is type(value) and known == value:
                return f"${name}"
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f"${name}"


def identifier(name: str) -> Sql:
    """The name of a column, whatever it holds.

    >>> identifier('a"; DROP TABLE b')
    '"a""; DROP TABLE b"'
    """
    return '"' + name.replace('"', '""') + '"'


def all_of(parts: list[Sql]) -> Sql:
    return " AND ".join(f"({part})" for part in parts) if parts else "true"


def any_of(parts: list[Sql]) -> Sql:
    return " OR ".join(f"({part})" for part in parts) if parts else "false"
