"""The events of a search as frames of server-sent events; the last is always `done`."""

import json
from collections.abc import Mapping
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.http.error_documents import error_document
from quarterdeck.search.root.running import Progress, RunningSearch, SearchEvent, Status

HEARTBEAT: Final = b": alive\n\n"
HEARTBEAT_S: Final = 15.0
"""Less than the minute after which proxies close what is silent."""

_NOTHING: Final[Mapping[str, object]] = {
    "problems": [],
    "matches": 0,
    "rows": 0,
    "bytes": 0,
    "chunks": 0,
    "workers": [],
    "workers_lost": 0,
    "retried": 0,
    "seconds": 0.0,
}


def frame_of(event: SearchEvent) -> bytes:
    if isinstance(event, Progress):
        return _frame("progress", event.document())
    return rows_frame(event.data)


def rows_frame(lines: bytes) -> bytes:
    r"""Each line of NDJSON is a line of data. A CR, which ends a line too, can be nothing but a blank in JSON.

    >>> rows_frame(b'{"a":1}\n{"a":2}\r\n')
    b'event: rows\ndata: {"a":1}\ndata: {"a":2}\n\n'
    """
    body = lines.removesuffix(b"\n").replace(b"\r", b"").replace(b"\n", b"\ndata: ")
    return b"event: rows\ndata: " + body + b"\n\n"


def done_frame(query_id: QueryId, search: RunningSearch | None, error: QuarterdeckError | None) -> bytes:
    """How it ended; one that failed before it was planned has found nothing. A stream without it was cut off."""
    if search is None:
        status, figures = Status.ERROR, _NOTHING
    else:
        status, figures = (search.status if error is None else Status.ERROR), _figures(search)
    told = None if error is None else error_document(error)["error"]
    return _frame("done", {"status": status.value, "error": told, **figures, "query_id": query_id})


def _figures(search: RunningSearch) -> Mapping[str, object]:
    machine = search.driver.machine
    return {
        "problems": search.problems.documents(),
        "matches": search.matches,
        "rows": search.rows,
        "bytes": search.searched_bytes,
        "chunks": len(machine.chunks),
        "workers": search.workers(),
        "workers_lost": machine.lost,
        "retried": machine.retried,
        "seconds": round(search.seconds, 3),
    }


def problems_line(search: RunningSearch) -> bytes:
    """The last line of an answer in NDJSON, if there is something to tell."""
    if not search.problems:
        return b""
    return _json({"quarterdeck": {"problems": search.problems.documents()}}) + b"\n"


def _frame(name: str, document: Mapping[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json(document))


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
