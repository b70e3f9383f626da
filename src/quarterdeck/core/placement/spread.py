"""Takes several workers at once so that as few as possible share a node.

Rules: it chooses as many as asked for, or all there are. It goes round the nodes and takes one worker from each that
still has one, until there are enough. So no node gives two more than another that could have given more. The last round
may not reach all nodes. It begins with the nodes that have most workers, which keeps the most nodes open for the next
request. Among nodes with the same number, the one that has had this number longest begins. Within a node, workers go in
the order in which they came.

Nodes are in one line for each number of free workers. So the cost of a choice grows with the workers that it chooses,
not with all nodes or workers. The numbers in use are a sorted list; k different numbers need k²/2 workers, so there are
few of them.

It must not know what a node or a worker is.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, TypeVar

WorkerT = TypeVar("WorkerT", bound=Hashable)


class SpreadPool(Generic[WorkerT]):
    """Workers that may be chosen, by node. Choosing takes nobody out: that is for the caller to do."""

    def __init__(self) -> None:
        self._node_of: dict[WorkerT, str] = {}
        # Not dicts: taking the first out again and again leaves holes in one that the next look has to cross.
        self._workers_on: dict[str, OrderedDict[WorkerT, None]] = {}
        """By node. No node is empty."""
        self._line_of: dict[int, OrderedDict[str, None]] = {}
        """Nodes by number of workers. No line is empty."""
        self._numbers: list[int] = []
        """The keys of `_line_of`, lowest first."""

    def add(self, worker: WorkerT, node: str) -> None:
        """Let the worker be chosen. `ValueError` when it already may be."""
        if worker in self._node_of:
            raise ValueError(f"worker {worker!r} is already there: remove it before it is added again")
        self._node_of[worker] = node
        workers = self._workers_on.get(node)
        if workers is None:
            workers = self._workers_on[node] = OrderedDict()
        else:
            self._leave_line(node, len(workers))
        workers[worker] = None
        self._join_line(node, len(workers))

    def remove(self, worker: WorkerT) -> None:
        """Let the worker be chosen no longer. `KeyError` when it is not there."""
        node = self._node_of.pop(worker)
        workers = self._workers_on[node]
        self._leave_line(node, len(workers))
        del workers[worker]
        if workers:
            self._join_line(node, len(workers))
        else:
            del self._workers_on[node]

    def choose(self, number: int) -> list[WorkerT]:
        """Return `number` workers, or all when there are fewer, spread over the nodes as evenly as the nodes allow.

        Any beginning of the answer is spread as evenly as the whole.

        >>> pool = SpreadPool[str]()
        >>> for name in ("s1", "b1", "b2", "b3", "b4", "b5"):
        ...     pool.add(name, "small" if name == "s1" else "big")
        >>> pool.choose(4)
        ['b1', 's1', 'b2', 'b3']
        """
        return choose_from((self,), number)

    def workers_on(self, node: str) -> Collection[WorkerT]:
        """The workers of a node, who came first first."""
        return self._workers_on.get(node, ())

    def nodes(self) -> Iterator[str]:
        """All nodes that have workers, those with most first."""
        return chain.from_iterable(self._line_of[number] for number in reversed(self._numbers))

    @property
    def node_count(self) -> int:
        return len(self._workers_on)

    def __len__(self) -> int:
        return len(self._node_of)

    def __contains__(self, worker: object) -> bool:
        return worker in self._node_of

    def _join_line(self, node: str, number: int) -> None:
        line = self._line_of.get(number)
        if line is None:
            line = self._line_of[number] = OrderedDict()
            insort(self._numbers, number)
        line[node] = None

    def _leave_line(self, node: str, number: int) -> None:
        line = self._line_of[number]
        del line[node]
        if not line:
            del self._line_of[number]
            del self._numbers[bisect_left(self._numbers, number)]


def choose_from(pools: Sequence[SpreadPool[WorkerT]], number: int) -> list[WorkerT]:
    """As `SpreadPool.choose`, of several pools that have no worker in common. A node gives workers of an earlier pool
    first. When there are more nodes than workers asked for, only those are looked at that have most workers in one of
    the pools."""
    if number < 1:
        raise ValueError(f"cannot choose {number} workers: the number must be 1 or more")
    number = min(number, sum(len(pool) for pool in pools))
    # The first `number` nodes of each pool: all of them, or enough for one from each.
    nodes = dict.fromkeys(chain.from_iterable(islice(pool.nodes(), number) for pool in pools))
    sizes = {node: sum(len(pool.workers_on(node)) for pool in pools) for node in nodes}
    # A reversed sort is stable: equal ones stay in the order of their lines.
    most_first = sorted(nodes, key=sizes.__getitem__, reverse=True)
    left = [(sizes[node], chain.from_iterable([pool.workers_on(node) for pool in pools])) for node in most_first]
    chosen: list[WorkerT] = []
    taken = 0
    while len(chosen) < number:
        chosen += [next(workers) for _, workers in left[: number - len(chosen)]]
        taken += 1
        while left and left[-1][0] == taken:
            left.pop()
    return chosen
