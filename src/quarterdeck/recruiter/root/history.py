"""The searches of this process: those that run, and the last that ended."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.http.errors import error_document
from quarterdeck.recruiter.root.running import RunningSearch, Status

KEPT: Final = 50
"""Searches that have ended and are still remembered."""


@dataclass(frozen=True, slots=True)
class _Begun:
    search: RunningSearch
    at_us: int


class SearchHistory:
    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._running: dict[QueryId, _Begun] = {}
        self._ended: OrderedDict[QueryId, dict[str, object]] = OrderedDict()

    @property
    def running(self) -> int:
        return len(self._running)

    def begin(self, search: RunningSearch) -> None:
        self._running[search.query_id] = _Begun(search, self._now_us())

    def end(self, search: RunningSearch, status: Status, error: QuarterdeckError | None) -> None:
        begun = self._running.pop(search.query_id)
        self._ended[search.query_id] = _document(begun, status.value, error)
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)

    def __iter__(self) -> Iterator[dict[str, object]]:
        """As JSON has them: running ones first, then those that ended, the latest first."""
        for begun in self._running.values():
            yield _document(begun, "running", None)
        yield from reversed(self._ended.values())

    def find(self, query_id: str) -> dict[str, object] | None:
        begun = self._running.get(QueryId(query_id))
        return self._ended.get(QueryId(query_id)) if begun is None else _document(begun, "running", None)


def figures_of(search: RunningSearch) -> dict[str, object]:
    """As they are told of every kind of query: a chunk is a work, and a row of the answer a row."""
    progress = search.progress()
    return {
        "works": progress.chunks,
        "delivered": progress.chunks_done,
        "attempts": progress.chunks + search.driver.machine.retried,
        "by_worker": {str(one["addr"]): one["chunks"] for one in search.workers()},
        "rows": search.rows,
    }


def _document(begun: _Begun, state: str, error: QuarterdeckError | None) -> dict[str, object]:
    search = begun.search
    request = search.plan.request
    progress = search.progress()
    return {
        "query_id": search.query_id,
        "state": state,
        "query": request.query,
        "sources": [*request.sources] or [request.data_path],
        "began_at_s": begun.at_us / 1_000_000,
        "seconds": round(search.seconds, 3),
        "files": search.plan.files,
        **progress.document(),
        "workers": search.workers(),
        "workers_now": progress.workers,
        "retried": search.driver.machine.retried,
        "rows": search.rows,
        "problems": search.problems.documents(),
        "error": None if error is None else error_document(error)["error"],
    }
