"""A coordinator's HTTP server as a client of Prometheus sees it."""

import contextlib
import http.client
import json
import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

from tests.e2e.door import Door, hang_up

Form: TypeAlias = Mapping[str, str | float | Sequence[str]]
Frame: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def text(self) -> bytes:
        """The body, unpacked."""
        return zlib.decompress(self.body, 31) if self.headers.get("content-encoding") == "gzip" else self.body

    @property
    def data(self) -> Any:
        """What was asked for; there must be no error."""
        assert self.status == 200, self.body
        assert self.json["status"] == "success"
        return self.json["data"]

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, type and text of an error in Prometheus' form, which has no other members."""
        told = self.json
        assert list(told) == ["status", "errorType", "error"]
        assert told["status"] == "error"
        return self.status, told["errorType"], told["error"]

    @property
    def frames(self) -> list[Frame]:
        """Of a whole stream: nothing but frames, each one line of data and an empty line."""
        assert self.status == 200, self.body
        return frames_of(self.body)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one server, each time on a connection of its own."""

    door: Door

    def get(self, path: str, form: Form | None = None, **headers: str) -> Answer:
        return self.ask("GET", path + (f"?{urlencode(form, doseq=True)}" if form else ""), b"", headers)

    def post(self, path: str, form: Form, **headers: str) -> Answer:
        named = {"content-type": "application/x-www-form-urlencoded"} | headers
        return self.ask("POST", path, urlencode(form, doseq=True).encode(), named)

    def post_json(self, path: str, document: object, **headers: str) -> Answer:
        return self.ask("POST", path, json.dumps(document).encode(), {"content-type": "application/json"} | headers)

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        with self.asked(method, path, body, headers) as connection, connection.getresponse() as response:
            named = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, named, response.read())

    @contextlib.contextmanager
    def asked(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Generator[http.client.HTTPConnection]:
        """The request is sent, nothing of the answer is read; at the end of the block the client goes away. In names
        of headers an underscore stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = self.door.connect()
        try:
            connection.request(method, path, body, named)
            yield connection
        finally:
            hang_up(connection)


def frames_of(body: bytes) -> list[Frame]:
    *frames, rest = body.split(b"\n\n")
    assert rest == b""
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]
