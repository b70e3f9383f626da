"""Taking several workers at once so that as few as possible share a node.

Rules: the answer has as many workers as asked for, or all there are. It goes round the nodes and takes one worker from
each that still has one, until there are enough. So no node gives two more than another that could have given more. The
last round may not reach all nodes; it begins with those that have most workers, which keeps the most nodes open for
whoever asks next. Of nodes with equally many, the one that stands first in the mapping begins; within a node, workers
go in the order in which they stand there.

It must not know what a node is, or take anything out of the mapping: that is for the caller.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from quarterdeck.core.ids import WorkerId


def spread_over_nodes(free_by_node: Mapping[str, Sequence[WorkerId]], number: int) -> list[WorkerId]:
    """Return `number` workers, or all when there are fewer, spread over the nodes as evenly as the nodes allow.

    Any beginning of the answer is spread as evenly as the whole.

    >>> w = WorkerId
    >>> spread_over_nodes({"small": [w("s1")], "big": [w("b1"), w("b2"), w("b3"), w("b4"), w("b5")]}, 4)
    ['b1', 's1', 'b2', 'b3']
    """
    if number < 1:
        raise ValueError(f"cannot take {number} workers: the number must be 1 or more")
    return list(islice(_round_by_round(free_by_node), number))


def _round_by_round(free_by_node: Mapping[str, Sequence[WorkerId]]) -> Iterator[WorkerId]:
    # A reversed sort is stable: nodes of equal size stay in the order of the mapping.
    nodes = sorted(filter(None, free_by_node.values()), key=len, reverse=True)
    taken = 0
    while nodes:
        for workers in nodes:
            yield workers[taken]
        taken += 1
        while nodes and len(nodes[-1]) == taken:
            nodes.pop()
