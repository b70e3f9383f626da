"""What people are told of a search besides what all queries have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.error_documents import error_document
from quarterdeck.search.root.running import RunningSearch, Status
from quarterdeck.telemetry.masking import masked_text


@dataclass(slots=True)
class Outcome:
    """How a search has ended, once it has."""

    status: Status | None = None
    error: QuarterdeckError | None = None


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


def search_document(search: RunningSearch, text: str, began_us: int, outcome: Outcome) -> dict[str, object]:
    """For `/v1/searches`. `text` is the query as it may be shown."""
    request, progress = search.plan.request, search.progress()
    return {
        "query_id": search.query_id,
        "state": "running" if outcome.status is None else outcome.status.value,
        "query": text,
        "sources": [*request.sources] or [request.data_path],
        "began_at_s": began_us / 1_000_000,
        "seconds": round(search.seconds, 3),
        "files": search.plan.files,
        **progress.document(),
        "workers": search.workers(),
        "workers_now": progress.workers,
        "retried": search.driver.machine.retried,
        "rows": search.rows,
        "problems": search.problems.documents(),
        "error": None if outcome.error is None else _masked(error_document(outcome.error)),
    }


def _masked(document: Mapping[str, object]) -> object:
    """Of an error, which may repeat the text of the search."""
    told = cast("Mapping[str, object]", document["error"])
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in told.items()}
