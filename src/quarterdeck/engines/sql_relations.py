"""Whether a query makes its rows from the rows of `files` one by one, so that it can be run over some files at a time.

A relation is *constant* if it reads no files, and *row by row* if each of its rows comes from one row of `files`. Any
other relation needs all files together: it aggregates, sorts, counts, or combines rows of `files`. An unknown relation
is of the last kind. This module does not judge the outermost query: see `sql_split`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, cast

from quarterdeck.engines.sql_aggregates import is_aggregate
from quarterdeck.engines.sql_tree import Node, folded, nodes_in

FILES: Final = "files"
_PARTS: Final = ("select_list", "where_clause", "group_expressions", "having", "qualify", "modifiers")
_VOLATILE: Final = frozenset(
    {
        *("random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "setval", "setseed"),
        *("sleep_ms", "error", "write_log"),
    }
)
_OF_THE_RUN: Final = frozenset(
    {
        *("now", "today", "ago", "get_current_time", "get_current_timestamp", "transaction_timestamp", "txid_current"),
        *("current_date", "current_timestamp"),
        *("current_query", "current_query_id", "current_connection_id", "current_transaction_id"),
        *("pg_conf_load_time", "pg_postmaster_start_time", "stats", "vector_type"),
    }
)
"""Functions that say when, where and how the SQL runs: each work gives its own answer."""
_LIKE_COLUMNS: Final = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Some are written as columns are."""
_OF_THE_TEXT: Final = frozenset(
    {
        *("alias", "current_query", "current_query_id", "current_connection_id", "current_transaction_id"),
        *("txid_current", "stats", "vector_type"),
    }
)
"""Functions that say how the SQL is written and run: what merges parts is other SQL."""
_CONDITIONS: Final = frozenset({"where_clause", "filter", "condition"})
_CATALOGS: Final = frozenset({"information_schema", "pg_catalog"})
_OF_CATALOGS: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")


class Kind(StrEnum):
    CONSTANT = "constant"
    ROWS = "row by row"


class TogetherError(Exception):
    """It needs all files together, and why; in words that follow `because`."""


Scope = Mapping[str, "Kind | TogetherError"]
"""What the names of common table expressions mean, in lower case."""

TABLES: Final = frozenset({"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "EXPRESSION_LIST"})
_LEFT_MAY_BE_ROWS: Final = frozenset({"INNER", "LEFT", "SEMI", "ANTI"})
_RIGHT_MAY_BE_ROWS: Final = frozenset({"INNER", "RIGHT"})


def kind_of_query(query: Node, scope: Scope) -> Kind:
    """Of one that stands within another. Raises `TogetherError`."""
    if query["type"] != "SELECT_NODE":
        return _constant_or(query, scope, "it has a UNION, EXCEPT, INTERSECT or RECURSIVE over files")
    inner = with_ctes(query, scope)
    kind = kind_of_relation(query["from_table"], inner)
    insist_no_files_below(own_expressions(query), inner)
    if kind is Kind.CONSTANT:
        _insist_steady(query)
        return kind
    why = _gathers(query)
    if why is not None:
        raise TogetherError(f"a query within it {why}")
    return kind


def with_ctes(query: Node, scope: Scope) -> Scope:
    """The names that hold within the query."""
    known = dict(scope)
    for entry in query["cte_map"]["map"]:
        name, body = folded(entry["key"]), entry["value"]["query_node"]
        try:
            known[name] = kind_of_query(body, known)
        except TogetherError as error:
            known[name] = error
    return known


def kind_of_relation(table: Node, scope: Scope) -> Kind:
    """Of what stands after FROM."""
    if table.get("sample") is not None:
        raise TogetherError("it takes a SAMPLE")
    match table["type"]:
        case "EMPTY":
            return Kind.CONSTANT
        case "BASE_TABLE":
            return _kind_of_name(table, scope)
        case "SUBQUERY":
            return kind_of_query(table["subquery"]["node"], scope)
        case "JOIN":
            return _kind_of_join(table, scope)
        case "TABLE_FUNCTION" | "EXPRESSION_LIST":
            insist_no_files_below([table.get("function"), table.get("values")], scope)
            _insist_steady(table)
            return Kind.CONSTANT
        case other:
            return _constant_or(table, scope, f"it has a {other.replace('_', ' ')}")


def insist_no_files_below(expressions: object, scope: Scope) -> None:
    """Raises for a query within an expression that would not say the same for each part: one that reads files would see
    some of them only."""
    for node in expressions_in(expressions):
        if node.get("class") != "SUBQUERY":
            continue
        query = node["subquery"]["node"]
        if reads_files(query, scope):
            raise TogetherError("it has a query within an expression that reads files")
        _insist_steady(query)
        _insist_own_aggregates(query)


def insist_one_run(part: Node) -> None:
    """Raises for what each work would say of itself, such as the time. Conditions may ask for the time, which differs
    by as long as the scan takes."""
    left: list[object] = [part]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left.extend(cast("list[object]", node))
        elif isinstance(node, dict):
            known = cast("Node", node)
            name = _of_the_run(known)
            if name is not None:
                raise TogetherError(f"each work has its own {name}: write it as a constant")
            left.extend(value for key, value in known.items() if key not in _CONDITIONS)


def insist_no_text(query: Node) -> None:
    """Raises for what shows that it is not the SQL as it was asked that runs."""
    for node in nodes_in(query):
        name = folded(node.get("function_name", ""))
        if name in _OF_THE_TEXT:
            raise TogetherError(f"{name} says how the SQL is written or run")


def own_expressions(query: Node) -> list[object]:
    """All there are in a SELECT, without its relation."""
    return [query[part] for part in _PARTS]


def expressions_in(tree: object) -> Iterator[Node]:
    """All nodes of expressions, without those of queries within them."""
    left: list[object] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            known = cast("Node", node)
            yield known
            left.extend([known["child"]] if known.get("class") == "SUBQUERY" else known.values())
        elif isinstance(node, list):
            left.extend(cast("list[object]", node))


def is_volatile(tree: object) -> bool:
    return any(folded(node.get("function_name", "")) in _VOLATILE for node in nodes_in(tree))


def _kind_of_name(table: Node, scope: Scope) -> Kind:
    name = folded(table["table_name"])
    if not table["schema_name"]:
        known = scope.get(name)
        if isinstance(known, TogetherError):
            raise known
        if known is not None:
            return known
    if _is_of_catalog(table):
        raise TogetherError(f"it reads {name}, which tells of the files of a work")
    return Kind.ROWS if name == FILES else Kind.CONSTANT


def _kind_of_join(join: Node, scope: Scope) -> Kind:
    left, right = kind_of_relation(join["left"], scope), kind_of_relation(join["right"], scope)
    insist_no_files_below(join.get("condition"), scope)
    if left is right is Kind.CONSTANT:
        return Kind.CONSTANT
    if left is right:
        raise TogetherError("it joins files with files")
    kind = str(join["join_type"])
    may_be = _LEFT_MAY_BE_ROWS if left is Kind.ROWS else _RIGHT_MAY_BE_ROWS
    if kind not in may_be or join["ref_type"] not in ("REGULAR", "CROSS", "NATURAL", "DEPENDENT"):
        raise TogetherError(f"it has a {join['ref_type']} {kind} JOIN that needs all rows of files")
    return Kind.ROWS


def _constant_or(tree: Node, scope: Scope, why: str) -> Kind:
    if reads_files(tree, scope):
        raise TogetherError(why)
    _insist_steady(tree)
    return Kind.CONSTANT


def reads_files(tree: object, scope: Scope) -> bool:
    """Whether the name of files, or of an expression that reads them, stands anywhere in it: rather too often."""
    for node in nodes_in(tree):
        if node.get("type") == "BASE_TABLE":
            name = folded(node["table_name"])
            if name == FILES or scope.get(name, Kind.CONSTANT) is not Kind.CONSTANT or _is_of_catalog(node):
                return True
        elif node.get("type") == "SHOW_REF":
            return True
    return False


def _insist_steady(tree: object) -> None:
    """What is made once, and not for each row, has to be the same for each part."""
    if is_volatile(tree):
        raise TogetherError("it has a value by chance that is to be the same for all rows")
    if any(node.get("sample") is not None for node in nodes_in(tree)):
        raise TogetherError("it takes a SAMPLE that is to be the same for all rows")


def _insist_own_aggregates(query: Node) -> None:
    """Raises when an aggregate in a query within an expression may be one of the query around it: it is, if all its
    columns are of that one. Columns are taken for the inner query's own where their names say so."""
    tables = [node for node in nodes_in(query) if node.get("type") in TABLES and "class" not in node]
    owners = {folded(table["alias"] or table.get("table_name") or "") for table in tables}
    columns = {folded(name) for table in tables for name in table.get("column_name_alias", ())}
    for table in tables:
        items = table["subquery"]["node"].get("select_list", ()) if table["type"] == "SUBQUERY" else ()
        columns |= {folded(item["alias"]) for item in items if item["alias"]}
    for call in nodes_in(query):
        if "function_name" not in call or not is_aggregate(call):
            continue
        names = [node["column_names"] for node in nodes_in(call) if node.get("class") == "COLUMN_REF"]
        if names and not any(folded(path[0]) in (owners if len(path) > 1 else columns) for path in names):
            raise TogetherError(f"a query within an expression has the aggregate {call['function_name']} of its rows")


def _is_of_catalog(table: Node) -> bool:
    return folded(table["schema_name"]) in _CATALOGS or folded(table["table_name"]).startswith(_OF_CATALOGS)


def is_of_the_run(node: Node) -> bool:
    return _of_the_run(node) is not None


def _of_the_run(node: Node) -> str | None:
    if node.get("class") == "FUNCTION":
        name = folded(node["function_name"])
        is_now = name == "age" and len(node["arguments"]) == 1
        return name if name in _OF_THE_RUN or is_now else None
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        name = folded(node["column_names"][0])
        return name if name in _LIKE_COLUMNS else None
    return None


def _gathers(query: Node) -> str | None:
    """What of a query puts rows together; in words that follow its name."""
    if query["group_expressions"] or query["group_sets"] or query["aggregate_handling"] != "STANDARD_HANDLING":
        return "groups"
    if query["having"] is not None or query["qualify"] is not None or query["sample"] is not None:
        return "has a HAVING, QUALIFY or SAMPLE"
    modifiers = {str(each["type"]) for each in query["modifiers"]}
    if modifiers - {"ORDER_MODIFIER"}:
        return "has a LIMIT or DISTINCT"
    if modifiers:
        return "has an ORDER BY: only that of the outermost query is merged"
    return gathering_expression([query["select_list"], query["where_clause"]])


def gathering_expression(tree: object) -> str | None:
    """An aggregate or a window in an expression, without the queries within it."""
    for node in expressions_in(tree):
        if node.get("class") == "WINDOW":
            return "has a window function"
        if is_aggregate(node):
            return f"has the aggregate {node['function_name']}"
    return None
