"""The searches of this process, for people who look: those that run, and the last that ended.

Values of secrets in texts are replaced. Where a tenant is named, only its own searches are told.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.http.error_documents import error_document
from quarterdeck.search.root.running import RunningSearch, Status
from quarterdeck.telemetry.masking import masked_text

KEPT: Final = 50
"""Searches that have ended and are still remembered."""


@dataclass(frozen=True, slots=True)
class _Begun:
    search: RunningSearch
    tenant: str
    at_us: int
    query: str


@dataclass(frozen=True, slots=True)
class _Ended:
    tenant: str
    document: dict[str, object]


class SearchHistory:
    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._running: dict[QueryId, _Begun] = {}
        self._ended: OrderedDict[QueryId, _Ended] = OrderedDict()

    @property
    def running(self) -> int:
        return len(self._running)

    def begin(self, search: RunningSearch, tenant: str) -> None:
        query = masked_text(search.plan.request.query)  # once: it may be long
        self._running[search.query_id] = _Begun(search, tenant, self._now_us(), query)

    def end(self, search: RunningSearch, status: Status, error: QuarterdeckError | None) -> None:
        begun = self._running.pop(search.query_id)
        self._ended[search.query_id] = _Ended(begun.tenant, _document(begun, status.value, error))
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)

    def documents(self, tenant: str | None = None) -> list[dict[str, object]]:
        """As JSON has them: running ones first, then those that ended, the latest first; of one tenant, where one is
        named."""
        running = [_document(one, "running", None) for one in self._running.values() if tenant in (None, one.tenant)]
        return running + [one.document for one in reversed(self._ended.values()) if tenant in (None, one.tenant)]

    def find(self, query_id: str, tenant: str | None = None) -> dict[str, object] | None:
        """One of them, if it is the tenant's."""
        begun, ended = self._running.get(QueryId(query_id)), self._ended.get(QueryId(query_id))
        if begun is not None and tenant in (None, begun.tenant):
            return _document(begun, "running", None)
        return ended.document if ended is not None and tenant in (None, ended.tenant) else None


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
        "query": begun.query,
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
        "error": None if error is None else _masked(error_document(error)),
    }


def _masked(document: Mapping[str, object]) -> object:
    """Of an error, which may repeat the text of the search."""
    told = cast("Mapping[str, object]", document["error"])
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in told.items()}
