"""Whether a query makes its rows of the rows of `files` one by one, so that it can be asked of some files at a time.

A relation is *constant* when it reads no files, *row by row* when each of its rows comes from one row of `files`, and
anything else needs all files together: it aggregates, sorts, counts, or puts rows of `files` beside each other. What is
not known here is of the last kind. Nothing is said about the outermost query: see `sql_split`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, cast

from quarterdeck.engines.sql_aggregates import is_aggregate
from quarterdeck.engines.sql_tree import Node, nodes_in

FILES: Final = "files"
_PARTS: Final = ("select_list", "where_clause", "group_expressions", "having", "qualify", "modifiers")
_VOLATILE: Final = frozenset(
    {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "currval", "setseed", "sleep_ms", "error"}
)


class Kind(StrEnum):
    CONSTANT = "constant"
    ROWS = "row by row"


class TogetherError(Exception):
    """It needs all files together, and why; in words that follow `because`."""


Scope = Mapping[str, "Kind | TogetherError"]
"""What the names of common table expressions mean, in lower case."""

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
        name, body = str(entry["key"]).lower(), entry["value"]["query_node"]
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
    """Raises for a query within an expression that reads files: it would see some of them only."""
    for node in expressions_in(expressions):
        if node.get("class") == "SUBQUERY" and _reads_files(node["subquery"]["node"], scope):
            raise TogetherError("it has a query within an expression that reads files")


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
    return any(str(node.get("function_name", "")).lower() in _VOLATILE for node in nodes_in(tree))


def _kind_of_name(table: Node, scope: Scope) -> Kind:
    name = str(table["table_name"]).lower()
    if not table["schema_name"]:
        known = scope.get(name)
        if isinstance(known, TogetherError):
            raise known
        if known is not None:
            return known
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
    if _reads_files(tree, scope):
        raise TogetherError(why)
    _insist_steady(tree)
    return Kind.CONSTANT


def _reads_files(tree: object, scope: Scope) -> bool:
    """Whether the name of files, or of an expression that reads them, stands anywhere in it: rather too often."""
    for node in nodes_in(tree):
        if node.get("type") == "BASE_TABLE":
            name = str(node["table_name"]).lower()
            if name == FILES or scope.get(name, Kind.CONSTANT) is not Kind.CONSTANT:
                return True
        elif node.get("type") == "SHOW_REF":
            return True
    return False


def _insist_steady(tree: object) -> None:
    """What is made once, and not for each row, has to be the same for each part."""
    if is_volatile(tree):
        raise TogetherError("it has a value by chance that is to be the same for all rows")


def _gathers(query: Node) -> str | None:
    """What of a query puts rows together; in words that follow its name."""
    if query["group_expressions"] or query["group_sets"] or query["aggregate_handling"] != "STANDARD_HANDLING":
        return "groups"
    if query["having"] is not None or query["qualify"] is not None or query["sample"] is not None:
        return "has a HAVING, QUALIFY or SAMPLE"
    modifiers = {str(each["type"]) for each in query["modifiers"]}
    if modifiers - {"ORDER_MODIFIER"}:
        return "has a LIMIT or DISTINCT"
    return gathering_expression([query["select_list"], query["where_clause"]])


def gathering_expression(tree: object) -> str | None:
    """An aggregate or a window in an expression, queries within it not among it."""
    for node in expressions_in(tree):
        if node.get("class") == "WINDOW":
            return "has a window function"
        if is_aggregate(node):
            return f"has the aggregate {node['function_name']}"
    return None
