"""Events of a search, as short as a test wants to write them."""

import json
from typing import Any

from tests.cli.scripted import QUERY_ID, Request, Script

SEARCH = "/v1/search"


def event(name: str, *lines: str) -> bytes:
    return "".join([f"event: {name}\n", *(f"data: {line}\n" for line in lines), "\n"]).encode()


def progress(**fields: int) -> bytes:
    known = {"bytes": 3_200_000_000, "bytes_done": 0, "chunks": 48, "chunks_done": 0, "matches": 0, "workers": 2}
    return event("progress", json.dumps({**known, "workers_lost": 0, "bad_lines": 0, **fields}))


def rows(*records: Any) -> bytes:
    return event("rows", *(json.dumps(record, ensure_ascii=False) for record in records))


def done(**fields: Any) -> bytes:
    document = {
        "status": "ok",
        "error": None,
        "problems": [],
        "matches": 12_345,
        "rows": 3,
        "bytes": 3_200_000_000,
        "chunks": 48,
        "workers": [{"addr": "a:1", "node": "a", "chunks": 40}, {"addr": "b:1", "node": "b", "chunks": 8}],
        "retried": 1,
        "seconds": 2.31,
        "query_id": QUERY_ID,
        **fields,
    }
    return event("done", json.dumps(document))


def failed(code: str, what: str = "it failed", why: str = "of this", step: str = "do that") -> bytes:
    error = {"code": code, "what": what, "why": why, "next_step": step, "retryable": False}
    return done(status="error", error=error)


def problem(url: str, why: str = "it is no JSON", lines: int = 1) -> dict[str, Any]:
    return {"url": url, "why": why, "lines": lines}


def begin(request: Request) -> None:
    request.head(200, x_query_id=QUERY_ID, content_type="text/event-stream", transfer_encoding="chunked")


def send(request: Request, part: bytes) -> None:
    request.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")


def gives(script: Script, *parts: bytes, finish: bool = True) -> None:
    """Each part is a chunk of HTTP; unless it is finished, the connection ends in the middle."""

    def answer(request: Request) -> None:
        begin(request)
        for part in parts:
            send(request, part)
        if finish:
            request.wfile.write(b"0\r\n\r\n")

    script.answers[SEARCH] = answer
