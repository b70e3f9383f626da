"""A coordinator that answers what a test wants it to: real HTTP on a real socket, and nothing behind it."""

import io
import json
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.security.local_processes import default_folder

arrow: Any = pyarrow
QUERY_ID = "0123456789abcdef"


def crew(*workers: dict[str, Any], **coordinator: Any) -> dict[str, Any]:
    own = {"name": "host-1234", "queue_depth": 0, "oldest_age_s": 0.0, "queries": 0, **coordinator}
    return {"coordinator": own, "workers": list(workers)}


def worker(worker_id: str = "worker-1", **fields: Any) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "node": "host",
        "state": "accepting",
        "slots": 2,
        "in_flight": 1,
        "credit": 6,
        "heard_s_ago": 0.25,
        "disk": {"artifact_bytes": 1536, "cache_bytes": 0, "free_bytes": 20 * 1024**3},
        **fields,
    }


def query(**fields: Any) -> dict[str, Any]:
    return {
        "query_id": QUERY_ID,
        "kind": "scan",
        "text": "select count(*) from files",
        "tenant": "default",
        "state": "succeeded",
        "works": 4,
        "delivered": 4,
        "attempts": 6,
        "by_worker": {"worker-1": 3, "worker-2": 1},
        "rows": 1234,
        "artifact_bytes": 99,
        "first_result_s": 0.1,
        "asked_at_s": 1.0,
        "age_s": 90.5,
        "duration_s": 1.5,
        "error": None,
        **fields,
    }


def error(code: str, what: str = "it failed", why: str = "of this", step: str = "do that") -> dict[str, Any]:
    return {"error": {"code": code, "what": what, "why": why, "next_step": step, "retryable": False}}


def arrow_stream(*columns: dict[str, list[Any]], end: bool = True) -> bytes:
    """The bytes of a stream with one batch for each argument."""
    batches = [arrow.RecordBatch.from_pydict(column) for column in columns]
    sink = io.BytesIO()
    writer = arrow.ipc.new_stream(sink, batches[0].schema)
    for batch in batches:
        writer.write_batch(batch)
    if end:
        writer.close()
    return sink.getvalue()


class Request(BaseHTTPRequestHandler):
    """Answers with what the script has for the path, or runs it."""

    protocol_version = "HTTP/1.1"
    script: "Script"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["content-length"])))

    def _answer(self, body: bytes) -> None:
        self.close_connection = True
        script = self.script
        script.asked.append((self.command, self.path, dict(self.headers), self._document(body)))
        answer = script.answers.get(self.path, (404, error("not_found")))
        if callable(answer):
            answer(self)
        else:
            status, document = answer
            self.whole(status, json.dumps(document).encode())

    def _document(self, body: bytes) -> Any:
        if self.headers["content-type"] == "application/x-www-form-urlencoded":
            return dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True))
        return json.loads(body) if body else None

    def whole(self, status: int, body: bytes, **headers: str) -> None:
        self.head(status, content_length=str(len(body)), **headers)
        self.wfile.write(body)

    def head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def rows(self, *parts: bytes, finish: bool = True) -> None:
        """Sends parts of an answer, each a chunk; unless it is finished, the connection ends in the middle."""
        self.head(200, x_query_id=QUERY_ID, transfer_encoding="chunked")
        for part in parts:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        if finish:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        pass


Answer = tuple[int, Any] | Callable[[Request], None]


class Script:
    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Answer] = {
            "/v1/crew": (200, crew(worker())),
            "/v1/queries": (200, [query()]),
            f"/v1/queries/{QUERY_ID}": (200, query()),
        }
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    def scan_gives(self, *parts: bytes, finish: bool = True) -> None:
        self.answers["/v1/scan"] = lambda request: request.rows(*parts, finish=finish)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever has what it wants may go, at any moment: that is no news for the standard error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def scripted_coordinator() -> Generator[Script]:
    class Handler(Request):
        pass

    server = _Server(("127.0.0.1", 0), Handler)
    for file in default_folder().glob(f"*-{server.server_port}.json"):  # of a process that was killed there just now
        file.unlink(missing_ok=True)
    script = Handler.script = Script(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield script
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
