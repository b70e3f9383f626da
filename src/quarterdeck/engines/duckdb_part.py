"""A SELECT with known columns: it is bound to them, and a part of a larger query is checked before it runs.

The code that divides a SELECT knows no columns. Here they are known, and DuckDB itself says which columns the whole
answer has, and what is wrong with the SQL.
"""

import copy

import duckdb

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.duckdb_select import one_select
from quarterdeck.engines.duckdb_tree import text_of
from quarterdeck.engines.part_words import PartWords
from quarterdeck.engines.result_shape import insist_names
from quarterdeck.engines.sql_plan import PartChecks
from quarterdeck.engines.sql_relations import FILES
from quarterdeck.engines.sql_stars import hide_column
from quarterdeck.engines.sql_tree import folded

_FILENAME = "filename"


def bound(connection: duckdb.DuckDBPyConnection, sql: str, *, hides_filename: bool) -> duckdb.DuckDBPyRelation:
    """The SELECT, not run yet. With `hides_filename`, a * means all columns of `files` but that one."""
    select = one_select(connection, sql)
    if hides_filename:
        query = copy.deepcopy(select.query)
        if hide_column(query, _FILENAME):
            return connection.sql(text_of(connection, query))
    return connection.sql(select.statement)


def checked_part(
    connection: duckdb.DuckDBPyConnection, checks: PartChecks, sql: str, *, hides_filename: bool
) -> tuple[duckdb.DuckDBPyRelation, PartWords]:
    """The part, not run yet, and what is to be told with its rows. Raises for SQL that was divided as its columns do
    not allow; first of all for what is wrong with the whole of it."""
    whole = bound(connection, checks.whole_sql, hides_filename=hides_filename)
    answer = tuple(zip(whole.columns, map(str, whole.types), strict=True))
    scope = bound(connection, checks.scope_sql, hides_filename=False)
    _insist_results(checks, set(map(folded, scope.columns)))
    files = connection.view(FILES)  # not the scope: who renames columns by their place hides which ones they were
    columns = list(zip(files.columns, map(str, files.types), strict=True))
    if checks.names is not None:  # where they stand in their files does not count
        columns = sorted(column for column in columns if folded(column[0]) in checks.names)
    probes = () if checks.probe_sql is None else bound(connection, checks.probe_sql, hides_filename=False).types
    part = bound(connection, sql, hides_filename=hides_filename)
    insist_names(whole.columns)
    if checks.keeps_types:  # a merge reads them by their names
        insist_names([folded(name) for name in part.columns])
    return part, PartWords(answer, tuple(map(str, part.types)), tuple(columns), tuple(map(str, probes)))


def _insist_results(checks: PartChecks, columns: set[str]) -> None:
    for name in checks.not_columns:
        if name in columns:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the SQL was not divided among works",
                f"{name} is a column of the files and also the name of a column of the result",
                f"give the result another name than {name}, or write the column with its table, as files.{name}",
            )
