"""Plans a SELECT over `files`: it connects `sql_split` with DuckDB's parser, and with the texts for the parts."""

from typing import Final

import duckdb

from quarterdeck.engines.duckdb_select import one_select
from quarterdeck.engines.duckdb_tree import UnwritableError, text_of
from quarterdeck.engines.sql_advice import has_own_files, renamed_files, rows_needed
from quarterdeck.engines.sql_plan import MergeOrder, PartChecks, Plan
from quarterdeck.engines.sql_split import split
from quarterdeck.engines.sql_tree import Node
from quarterdeck.engines.sql_way import PARTS, Split, Way

_ADVICE_MAX: Final = 1_000
"""Characters of SQL that an error repeats."""


def plan_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Plan:
    """Raises `QuarterdeckError` for what is not one SELECT that reads, `duckdb.Error` for what is no SQL."""
    query = one_select(connection, sql).query
    try:
        found = split(query)
        return _worded(connection, sql, query, found)
    except UnwritableError:
        why = "DuckDB would write a part of it in other words than it reads"
        return Plan(Way.TOGETHER, sql, why, advice=_advice(connection, query))
    except RecursionError:
        return Plan(Way.TOGETHER, sql, "its expressions are nested too deep to be divided")


def _worded(connection: duckdb.DuckDBPyConnection, sql: str, query: Node, found: Split) -> Plan:
    if found.way is Way.TOGETHER:
        return Plan(found.way, sql, found.why, advice=_advice(connection, query))
    part_sql = sql if found.part is None else text_of(connection, found.part)
    checks = merge = None
    if found.scope is not None:
        checks = PartChecks(
            whole_sql=sql,
            scope_sql=text_of(connection, found.scope),
            probe_sql=None if found.probes is None else text_of(connection, found.probes),
            names=None if found.names is None else tuple(sorted(found.names)),
            not_columns=tuple(sorted(found.not_columns)),
            keeps_types=found.way is Way.MERGED,
        )
    if found.outer is not None:
        merge = MergeOrder(text_of(connection, found.outer), found.is_grouped, found.keys, found.aggregates)
    return Plan(found.way, part_sql, "", found.offset, found.limit, checks, merge)


def _advice(connection: duckdb.DuckDBPyConnection, query: Node) -> tuple[str, str] | None:
    if has_own_files(query):
        return None
    try:
        advice = (
            text_of(connection, rows_needed(query)),
            text_of(connection, renamed_files(query, PARTS)),
        )
    except UnwritableError:
        return None
    return advice if sum(map(len, advice)) <= _ADVICE_MAX else None
