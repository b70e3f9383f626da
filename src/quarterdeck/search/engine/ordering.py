"""By what rows are ordered."""

from collections.abc import Sequence
from dataclasses import dataclass

from quarterdeck.search.engine.sql import Sql
from quarterdeck.search.engine.values import Value


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column; what is NULL comes last, in both directions."""

    column: str
    descending: bool = False

    @property
    def sql(self) -> Sql:
        return f"{self.column} {'DESC' if self.descending else 'ASC'} NULLS LAST"

    @property
    def reversed_sql(self) -> Sql:
        return f"{self.column} {'ASC' if self.descending else 'DESC'} NULLS FIRST"


def order_by(keys: Sequence[OrderKey]) -> Sql:
    return f" ORDER BY {', '.join(key.sql for key in keys)}" if keys else ""


def reversed_order_by(keys: Sequence[OrderKey]) -> Sql:
    return f" ORDER BY {', '.join(key.reversed_sql for key in keys)}" if keys else ""


def sort_columns(rows: Sql, value: Value, prefix: str, *, descending: bool) -> tuple[Sql, list[OrderKey]]:
    """The rows with more columns, and the order that they make: numbers before texts, the absent last. Integers beyond
    what a double can tell apart are told apart by themselves."""
    number, integer, text = f"{prefix}number", f"{prefix}integer", f"{prefix}text"
    computed = f"SELECT *, {value.number} AS {prefix}any, {value.integer} AS {integer} FROM ({rows})"
    is_number = f"coalesce(isfinite({prefix}any), false)"
    sql = f"""SELECT * EXCLUDE ({prefix}any), CASE WHEN {is_number} THEN {prefix}any END AS {number},
        CASE WHEN NOT {is_number} THEN {value.text} END AS {text} FROM ({computed})"""
    return sql, [OrderKey(column, descending) for column in (number, integer, text)]
