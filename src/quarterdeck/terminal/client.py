"""Asks a coordinator over HTTP, with the standard library, which loads ten times as fast as other clients.

Every failure becomes one of our errors: the coordinator's own, with its code, or one that says what is at the address
instead of a coordinator.
"""

import http.client
import json
import os
import socket
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlencode, urlsplit

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.error_documents import parse_error
from quarterdeck.security.credentials import Credentials, NotShownError
from quarterdeck.security.exposure import is_loopback
from quarterdeck.security.tokens import TOKEN_VARIABLE, SharedToken

NAME_THE_TOKEN: Final = (
    f"name a file with the crew's token with --token-file, or set {TOKEN_VARIABLE}; where the crew runs, `quarterdeck "
    "token` prints it"
)
"""For whoever is not let in: what to type."""
_ANSWER_S: Final = 10.0
"""How long a coordinator may take for what it only has to look up."""
_SETTINGS_FRAME: Final = ("\x04\x00\x00\x00\x00\x00", 3)
"""What a server of HTTP/2 says first, after three bytes with its length: RFC 9113, section 4.1."""
_MOST_QUOTED: Final = 60
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A machine that is gone without a word is noticed after 25 s, however long an answer may take."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a coordinator is, and what it takes to be let in."""

    url: str
    token_file: Path | None = None
    authority: Path | None = None
    insecure: bool = False
    """Whether the token may go to another machine without TLS."""

    def token(self) -> SharedToken | None:
        """The one that was named, if one was."""
        if self.token_file is not None:
            return SharedToken.from_file(self.token_file)
        return SharedToken.from_environment(TOKEN_VARIABLE)


class NoCoordinatorError(QuarterdeckError):
    """Nobody answers at the address."""


class Client:
    """One coordinator. Each request has a connection of its own, so any thread may ask."""

    def __init__(self, access: Access) -> None:
        self.url: Final = access.url.rstrip("/")
        self._place = _split(self.url)
        self._credentials = Credentials(access.token(), insecure=access.insecure)
        self._context = _context(access.authority) if self._place.scheme == "https" else None

    def get(self, path: str, headers: Mapping[str, str] = NO_HEADERS) -> Any:
        """The JSON document there."""
        connection = self._connection(_ANSWER_S)
        try:
            with self._explained():
                connection.request("GET", self._place.path + path, headers={**self._headers(), **headers})
                response = connection.getresponse()
                body = response.read()
            return self._document(response, body)
        finally:
            connection.close()

    def begin_get(self, path: str, headers: Mapping[str, str]) -> "Exchange":
        """Asks for what is there, and does not wait for the answer; close what is returned."""
        return self._send(path, None, headers, _ANSWER_S, "GET")

    def post(
        self,
        path: str,
        document: Mapping[str, object],
        *,
        accept: str,
        timeout_s: float | None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> "Exchange":
        """Sends a request, and does not wait for the answer; close what is returned. `timeout_s` limits each wait for
        more of the answer; None is for ever."""
        own = {"content-type": "application/json", "accept": accept, **headers}
        return self._send(path, json.dumps(document).encode(), own, timeout_s)

    def post_form(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str], *, timeout_s: float | None
    ) -> "Exchange":
        """The same for what takes a form instead of a document."""
        form = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json", **headers}
        return self._send(path, urlencode(fields).encode(), form, timeout_s)

    def answer(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        """The head of the answer; an error that the coordinator sends instead is raised."""
        with self._explained():
            response = connection.getresponse()
            if response.status == http.HTTPStatus.OK:
                return response
            body = response.read()
        raise self.refusal(response, body)

    def whole_answer(self, connection: http.client.HTTPConnection) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer to its end, be it an error or not."""
        with self._explained():
            response = connection.getresponse()
            return response, response.read()

    def _send(
        self, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float | None, method: str = "POST"
    ) -> "Exchange":
        connection = self._connection(timeout_s)
        try:
            with self._explained():
                connection.request(method, self._place.path + path, body, {**self._headers(), **headers})
        except BaseException:
            connection.close()
            raise
        return Exchange(self, connection)

    def authorization(self) -> str | None:
        """What lets us in: the token that was named, or that of a process of this user on this machine."""
        host, scheme = self._place.hostname or "", self._place.scheme
        port = self._place.port or (443 if scheme == "https" else 80)
        try:
            return self._credentials.authorization_for(host, port, encrypted=scheme == "https")
        except NotShownError as error:
            if is_loopback(host):
                raise self._absent(error.why) from None
            raise

    def _headers(self) -> dict[str, str]:
        authorization = self.authorization()
        return {} if authorization is None else {"authorization": authorization}

    def _connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        host, port = self._place.hostname or "", self._place.port
        if self._context is not None:
            return _TlsConnection(host, port, timeout=timeout_s, context=self._context)
        return _PlainConnection(host, port, timeout=timeout_s)

    def _document(self, response: http.client.HTTPResponse, body: bytes) -> Any:
        if response.status != http.HTTPStatus.OK:
            raise self.refusal(response, body)
        try:
            return json.loads(body)
        except ValueError:
            raise self.stranger("it did not answer in JSON") from None

    def refusal(self, response: http.client.HTTPResponse, body: bytes) -> QuarterdeckError:
        """The coordinator's error, as it raised it."""
        try:
            error = parse_error(body)
        except ValueError:
            why = f"it answered {response.status} {response.reason}".rstrip()
            if response.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
                return QuarterdeckError(ErrorCode.UNAUTHENTICATED, f"{self.url} did not let us in", why, NAME_THE_TOKEN)
            return self.stranger(why)
        if error.code is not ErrorCode.UNAUTHENTICATED:
            return error
        # The server says which header is missing, which nobody types.
        return QuarterdeckError(error.code, error.what, error.why, NAME_THE_TOKEN, error.retryable)

    def stranger(self, why: str) -> QuarterdeckError:
        """Somebody answers, and it is no coordinator, or one of another release."""
        return QuarterdeckError(
            ErrorCode.PROTOCOL,
            f"{self.url} is not a coordinator that this command understands",
            why,
            "check --url; run command and coordinator of one release",
        )

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the certificate of {self.url} is not trusted",
                error.verify_message or str(error),
                "name the crew's authority with --authority, and the host as the certificate has it",
            ) from None
        except ssl.SSLError as error:
            raise self.stranger(f"it does not speak TLS ({error.reason or error})") from None
        except TimeoutError:
            raise self._absent("it did not answer in time") from None
        except http.client.RemoteDisconnected:
            why = "it closed the connection without an answer"
            if self._context is None:
                why += ", as one does that speaks TLS: its URL begins with https://"
            raise self._absent(why) from None
        except http.client.IncompleteRead as error:
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                "the answer was cut off",
                f"the connection to {self.url} ended after {len(error.partial):,} bytes of it",
                "see the coordinator's log, and ask again",
            ) from None
        except http.client.HTTPException as error:
            if str(error).startswith(*_SETTINGS_FRAME):
                why = "it speaks HTTP/2, as the control port does that workers join; the one to ask is 7070 unless set"
                raise self.stranger(why) from None
            raise self.stranger(f"it does not speak HTTP ({str(error)[:_MOST_QUOTED]!r})") from None
        except OSError as error:
            raise self._absent(error.strerror or str(error)) from None

    def _absent(self, why: str) -> QuarterdeckError:
        return NoCoordinatorError(
            ErrorCode.UNAVAILABLE,
            f"no coordinator answers at {self.url}",
            why[:1].lower() + why[1:],
            "start one with `quarterdeck up`, or say with --url where it is",
        )


class Exchange:
    """A request that was sent. Use it as a context: leaving it ends the connection, and with it what was asked for."""

    def __init__(self, client: Client, connection: http.client.HTTPConnection) -> None:
        self._client = client
        self._connection = connection
        self._response: http.client.HTTPResponse | None = None

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self) -> http.client.HTTPResponse:
        """Waits for the head of the answer."""
        self._response = self._client.answer(self._connection)
        return self._response

    def whole_answer(self) -> tuple[http.client.HTTPResponse, bytes]:
        """Waits for the end of the answer, be it an error or not."""
        self._response, body = self._client.whole_answer(self._connection)
        return self._response, body

    def cut(self) -> None:
        """From another thread: whoever reads the answer meets its end at once."""
        if self._connection.sock is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is, before and after
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()


class _PlainConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _keep_alive(self.sock)


class _TlsConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _keep_alive(self.sock)


def _keep_alive(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # not every system has all of them
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _split(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        known = place.scheme in ("http", "https") and bool(place.hostname) and (place.port is None or place.port > 0)
    except ValueError:
        known, place = False, SplitResult("", "", "", "", "")
    if not known:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{url!r} is not the address of a coordinator",
            "that begins with http:// or https://, and a host",
            "write it as in http://127.0.0.1:7070",
        )
    return place


def _context(authority: Path | None) -> ssl.SSLContext:
    if authority is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=os.fspath(authority))
    except OSError as error:  # ssl.SSLError is one
        reason = cast("str | None", getattr(error, "reason", None)) or error.strerror or str(error)
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"the authority {authority} cannot be used",
            reason,
            "name a file with the authority's certificate in PEM form",
        ) from None
