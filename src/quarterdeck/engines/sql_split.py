"""How one SELECT over `files` is divided: what each part is asked, and how one answer is made from the parts.

A part gives its groups with partial aggregates, its distinct rows or its first rows, in columns with names of ours. The
outermost query, over these columns, then makes one answer of them. A name that could mean a column of the files or a
column of the result is taken for the latter here and recorded (`Split.not_columns`); whoever knows the files checks
that. If SQL cannot be divided so that the answer is certainly DuckDB's own, it needs all files together.
"""

import re
from typing import Final

from quarterdeck.engines.sql_aggregates import is_aggregate
from quarterdeck.engines.sql_calls import with_plain_calls
from quarterdeck.engines.sql_groups import Groups
from quarterdeck.engines.sql_looks import names_in, names_mentioned
from quarterdeck.engines.sql_made import select_of, star_of, table_of
from quarterdeck.engines.sql_modifiers import Modifiers
from quarterdeck.engines.sql_relations import (
    FILES,
    Kind,
    TogetherError,
    expressions_in,
    insist_no_files_below,
    insist_no_text,
    insist_one_run,
    kind_of_relation,
    own_expressions,
    reads_files,
    with_ctes,
)
from quarterdeck.engines.sql_sorted import Sorted
from quarterdeck.engines.sql_tree import Node, nodes_in
from quarterdeck.engines.sql_way import Split, Way

_OURS: Final = re.compile(r"__[a-z][0-9]+", re.IGNORECASE)
_ALL: Final = select_of([star_of(())], table_of(FILES), None, [])


def split(query: Node) -> Split:
    """Of the outermost query."""
    try:
        found = _split(with_plain_calls(query), query)
        if found.way is not Way.CONSTANT:
            insist_one_run(query if found.part is None else found.part)
    except TogetherError as error:
        return Split(Way.TOGETHER, str(error))
    return found


def _split(query: Node, as_written: Node) -> Split:
    if query["type"] != "SELECT_NODE":
        if reads_files(query, {}):
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
    if is_grouped or modifiers.is_distinct or modifiers.orders:
        _insist_mergeable(query)
    if is_grouped:
        return Groups(query, modifiers).split()
    if modifiers.is_distinct or modifiers.orders:
        return Sorted(query, modifiers).split()
    if modifiers.limit is None and not modifiers.offset:
        return Split(Way.ROWS, scope=_ALL, names=names_mentioned(query))
    part = modifiers.pushed_to(as_written)
    return Split(
        Way.FIRST,
        part=part,
        offset=modifiers.offset,
        limit=modifiers.limit,
        scope=_ALL,
        names=names_mentioned(query),
    )


def _insist_mergeable(query: Node) -> None:
    if any(node.get("class") == "COLLATE" for node in nodes_in([query["from_table"], query["cte_map"]])):
        raise TogetherError("a query within it has a COLLATE, which its columns keep")
    names = {str(node.get("alias")) for node in nodes_in(query)} | names_in(query)
    if any(_OURS.fullmatch(name) for name in names):
        raise TogetherError("it has a name like those that are used to merge it")
    insist_no_text(query)
