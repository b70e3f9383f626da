"""The identities everything is named by. All are opaque strings, except the two that have an order.

Nothing here makes an id: ids come from outside, so that a simulation can make them repeatable.
"""

from typing import Final, NewType

MAX_NAME: Final = 250
"""Characters of the name of a process, a node, a tenant or a declared thing: each is a key of tables, metrics and logs,
and a report has thousands of them."""

WorkerId = NewType("WorkerId", str)
"""Stable across restarts of one worker."""

Incarnation = NewType("Incarnation", int)
"""Rises with every start of a worker process. Of two processes with one `WorkerId` the higher one is the true one."""

CoordinatorId = NewType("CoordinatorId", str)
SessionId = NewType("SessionId", str)
QueryId = NewType("QueryId", str)
LeafId = NewType("LeafId", str)
WorkId = NewType("WorkId", str)

CandidateId = NewType("CandidateId", str)
"""One process that stands for leadership, new with each start: not the name of a coordinator, which may come back."""

Fence = NewType("Fence", int)
"""Rises with every leader. What is declared obeys only the highest one that was seen."""
