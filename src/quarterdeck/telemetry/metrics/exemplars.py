"""Exemplars: the query and the work of an observation.

Ids are never labels: each would be a time series of its own, for ever. An exemplar is one example beside a bucket. It
leads from a slow bucket to the logs and spans of the slow query.
"""

from typing import TypeAlias

LIMIT_CHARACTERS = 128
"""OpenMetrics allows this much for the names and values of an exemplar together."""

Exemplar: TypeAlias = tuple[str, str | None]
"""Query and work. Made on the hot path, so it is nothing but a tuple; the limit is applied when it is exposed."""


def exemplar(query_id: str, work_id: str | None = None) -> Exemplar:
    """What to give to `observe` and `inc`."""
    return query_id, work_id


def exemplar_labels(of: Exemplar) -> dict[str, str] | None:
    """The labels to expose: both ids; the query alone where both are too long; None where that is too long as well.

    >>> exemplar_labels(exemplar("q-1", "w-1"))
    {'query_id': 'q-1', 'work_id': 'w-1'}
    >>> exemplar_labels(exemplar("q-1", "w" * 120))
    {'query_id': 'q-1'}
    """
    query_id, work_id = of
    room = LIMIT_CHARACTERS - len("query_id") - len(query_id)
    if room < 0:
        return None
    if work_id is None or len("work_id") + len(work_id) > room:
        return {"query_id": query_id}
    return {"query_id": query_id, "work_id": work_id}
