"""SQL as a tree: nodes are dicts, as DuckDB's `json_serialize_sql` writes them. `duckdb_tree` reads and writes them."""

from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, TypeAlias, cast

Node: TypeAlias = dict[str, Any]
_FOLDING: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def folded(name: object) -> str:
    """The same for names that DuckDB takes for one. It knows capitals of ASCII only: `Ä` and `ä` are two columns."""
    return str(name).translate(_FOLDING)


def nodes_in(tree: object) -> Iterator[Node]:
    """All of them, in no order. It does not recurse: a chain of a thousand sums is a thousand deep."""
    left: list[object] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield cast("Node", node)
            left.extend(cast("Node", node).values())
        elif isinstance(node, list):
            left.extend(cast("list[object]", node))
