"""How one SELECT over `files` is divided: what each part is asked, and what makes one answer of what the parts say.

A part is asked for its groups with partial aggregates, its distinct rows or its first rows; its columns have names of
ours. What makes one answer of them is the outermost query again, over these columns. A name that could mean a column of
the files as well as a column of the result is taken for the latter here, and told (`Split.not_columns`): who knows the
files looks whether that is so. What cannot be divided so that the answer is certainly DuckDB's own needs all files
together.
"""

from quarterdeck.engines.sql_aggregates import is_aggregate
from quarterdeck.engines.sql_groups import Groups
from quarterdeck.engines.sql_looks import names_files
from quarterdeck.engines.sql_modifiers import Modifiers
from quarterdeck.engines.sql_relations import (
    Kind,
    TogetherError,
    expressions_in,
    insist_no_files_below,
    kind_of_relation,
    own_expressions,
    with_ctes,
)
from quarterdeck.engines.sql_sorted import Sorted
from quarterdeck.engines.sql_tree import Node, nodes_in
from quarterdeck.engines.sql_way import Split, Way


def split(query: Node) -> Split:
    """Of the outermost query."""
    try:
        return _split(query)
    except TogetherError as error:
        return Split(Way.TOGETHER, str(error))
    except RecursionError:
        return Split(Way.TOGETHER, "its expressions are nested too deep to be divided")


def _split(query: Node) -> Split:
    if query["type"] != "SELECT_NODE":
        if any(names_files(node) for node in nodes_in(query)):
            raise TogetherError("it has a UNION, EXCEPT, INTERSECT or RECURSIVE over files")
        return Split(Way.CONSTANT)
    scope = with_ctes(query, {})
    kind = kind_of_relation(query["from_table"], scope)
    insist_no_files_below(own_expressions(query), scope)
    if kind is Kind.CONSTANT:
        return Split(Way.CONSTANT)
    if query["qualify"] is not None or query["sample"] is not None:
        raise TogetherError("it has a QUALIFY or SAMPLE")
    modifiers = Modifiers(query["modifiers"])
    gathers = [query["select_list"], query["having"], modifiers.orders]
    if any(node.get("class") == "WINDOW" for node in expressions_in(gathers)):
        raise TogetherError("it has a window function")
    is_grouped = (
        bool(query["group_expressions"] or query["group_sets"] or query["having"])
        or query["aggregate_handling"] != "STANDARD_HANDLING"
        or any(map(is_aggregate, expressions_in(gathers)))
    )
    if is_grouped:
        return Groups(query, modifiers).split()
    if modifiers.is_distinct or modifiers.orders:
        return Sorted(query, modifiers).split()
    if modifiers.limit is None and not modifiers.offset:
        return Split(Way.ROWS)
    part = modifiers.pushed_to(query)
    return Split(Way.FIRST, part=part, offset=modifiers.offset, limit=modifiers.limit)
