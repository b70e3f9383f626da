"""The events of a search as frames of server-sent events; the last is always `done`."""

import json
from collections.abc import Mapping
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.error_documents import error_document
from quarterdeck.search.root.running import Progress, RunningSearch, SearchEvent, Status

HEARTBEAT: Final = b": alive\n\n"
HEARTBEAT_S: Final = 15.0
"""Less than the minute after which proxies close what is silent."""


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


def done_frame(search: RunningSearch, error: QuarterdeckError | None) -> bytes:
    """How it ended. A stream without it was cut off."""
    machine = search.driver.machine
    return _frame(
        "done",
        {
            "status": (search.status if error is None else Status.ERROR).value,
            "error": None if error is None else error_document(error)["error"],
            "problems": search.problems.documents(),
            "matches": search.matches,
            "rows": search.rows,
            "bytes": search.searched_bytes,
            "chunks": len(machine.chunks),
            "workers": search.workers(),
            "workers_lost": machine.lost,
            "retried": machine.retried,
            "seconds": round(search.seconds, 3),
            "query_id": search.query_id,
        },
    )


def problems_line(search: RunningSearch) -> bytes:
    """The last line of an answer in NDJSON, if there is something to tell."""
    if not search.problems:
        return b""
    return _json({"quarterdeck": {"problems": search.problems.documents()}}) + b"\n"


def _frame(name: str, document: Mapping[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json(document))


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
