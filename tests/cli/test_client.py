"""Asking a coordinator: its own errors come through, and what is there instead of one is told."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.documents import Look, ask_crew, ask_query
from tests.cli.scripted import QUERY_ID, Script, crew, error, query, scripted_coordinator, worker
from tests.ports import dead_port

TOKEN = "0123456789abcdef-0123456789abcdef"


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_coordinator() as script:
        yield script


@contextmanager
def peer(talk: Callable[[socket.socket], None]) -> Generator[str]:
    """Somebody who listens and talks in a way of his own, once; where he is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            with connected:
                talk(connected)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


def failure(url: str, **access: Any) -> QuarterdeckError:
    with pytest.raises(QuarterdeckError) as caught:
        Client(Access(url, **access)).get("/v1/crew")
    return caught.value


def test_a_document_is_read_from_below_the_address(script: Script) -> None:
    script.answers["/deep/v1/crew"] = (200, {"a": 1})
    assert Client(Access(f"{script.url}/deep/")).get("/v1/crew") == {"a": 1}


def test_an_error_of_the_coordinator_comes_through_as_it_was_raised(script: Script) -> None:
    script.answers["/v1/crew"] = (503, error("no_worker", "nobody is there", "no worker joined", "start one"))
    raised = failure(script.url)
    assert raised.code is ErrorCode.NO_WORKER
    assert str(raised) == "nobody is there: no worker joined; start one"
    assert not raised.retryable


def test_who_is_not_let_in_is_told_what_a_command_takes_and_not_which_header(script: Script) -> None:
    refused = error("unauthenticated", "the request was not let in", "it has no token", "send a header")
    script.answers["/v1/crew"] = (401, refused)
    raised = failure(script.url)
    assert raised.why == "it has no token"
    assert "--token-file" in raised.next_step
    assert "QUARTERDECK_TOKEN" in raised.next_step


@pytest.mark.parametrize("url", ["127.0.0.1:7070", "ftp://host", "http://", "http://host:seven", "", "http://[::1"])
def test_what_is_no_address_is_told_before_anybody_is_asked(url: str) -> None:
    raised = failure(url)
    assert raised.code is ErrorCode.INVALID_ARGUMENT
    assert repr(url.rstrip("/")) in raised.what


def test_nobody_there_is_told_with_what_to_do() -> None:
    with dead_port() as port:
        raised = failure(f"http://127.0.0.1:{port}")
    assert raised.code is ErrorCode.UNAVAILABLE
    assert "connection refused; start one with `quarterdeck up`" in str(raised)


@pytest.mark.parametrize(
    ("status", "document", "why"),
    [(404, {"detail": "Not Found"}, "answered 404"), (200, "text", "answer"), (500, [], "answered 500")],
)
def test_a_stranger_is_told_apart_from_a_coordinator(script: Script, status: int, document: object, why: str) -> None:
    script.answers["/v1/crew"] = (status, document)
    with pytest.raises(QuarterdeckError, match=why) as caught:
        ask_crew(Client(Access(script.url)))
    assert caught.value.code is ErrorCode.PROTOCOL


def test_a_page_that_is_not_json_is_a_stranger_too(script: Script) -> None:
    script.answers["/v1/crew"] = lambda request: request.whole(200, b"<html>")
    assert "did not answer in JSON" in failure(script.url).why


def test_whoever_does_not_speak_http_is_a_stranger() -> None:
    def talk(connected: socket.socket) -> None:
        connected.recv(1000)
        connected.sendall(b"220 smtp.example ESMTP\r\n")

    with peer(talk) as address:
        assert failure(f"http://{address}").code is ErrorCode.PROTOCOL


def test_whoever_hangs_up_is_not_there() -> None:
    with peer(lambda connected: (connected.recv(1000), None)[1]) as address:
        raised = failure(f"http://{address}")
    assert raised.code is ErrorCode.UNAVAILABLE
    assert "as one does that speaks TLS: its URL begins with https://" in raised.why


def test_whoever_does_not_answer_in_time_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.terminal.client._ANSWER_S", 0.05)
    gone = threading.Event()
    with peer(lambda connected: (gone.wait(10), None)[1]) as address:
        assert "did not answer in time" in failure(f"http://{address}").why
        gone.set()


def test_a_plain_server_is_no_tls_server() -> None:
    def talk(connected: socket.socket) -> None:
        connected.recv(1000)
        connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with peer(talk) as address:
        raised = failure(f"https://{address}")
    assert raised.code is ErrorCode.PROTOCOL
    assert "does not speak TLS" in raised.why


# Token and certificates


def test_the_token_of_the_file_is_sent(script: Script, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    Client(Access(script.url, tmp_path / "token")).get("/v1/crew")
    assert script.asked[0][2]["authorization"] == f"Bearer {TOKEN}"


def test_the_token_of_the_environment_is_sent(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_TOKEN", TOKEN)
    Client(Access(script.url)).get("/v1/crew")
    assert script.asked[0][2]["authorization"] == f"Bearer {TOKEN}"


def test_a_token_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert failure("http://127.0.0.1:1", token_file=tmp_path / "missing").code is ErrorCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def tls_peer(authority: trustme.CA) -> Generator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate: Any = authority.issue_cert("127.0.0.1")
    certificate.configure_cert(context)

    def talk(connected: socket.socket) -> None:
        try:
            with context.wrap_socket(connected, server_side=True) as wrapped:
                wrapped.recv(1000)
                wrapped.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except OSError:  # a client that does not trust us hangs up
            pass

    with peer(talk) as address:
        yield f"https://{address}"


def test_a_coordinator_of_the_crews_authority_is_trusted(authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    with tls_peer(authority) as url:
        assert Client(Access(url, authority=tmp_path / "authority.pem")).get("/v1/crew") == {}


def test_a_coordinator_of_an_unknown_authority_is_not_trusted_and_the_flag_is_named(authority: trustme.CA) -> None:
    with tls_peer(authority) as url:
        raised = failure(url)
    assert raised.code is ErrorCode.INVALID_ARGUMENT
    assert "--authority" in raised.next_step


def test_an_authority_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_text("nothing")
    for name in ("authority.pem", "missing.pem"):
        raised = failure("https://127.0.0.1:1", authority=tmp_path / name)
        assert raised.code is ErrorCode.INVALID_ARGUMENT
        assert name in raised.what


# What is read


def test_crew_and_queries_are_read_as_they_are(script: Script) -> None:
    look = Look.take(Client(Access(script.url)))
    (first,) = look.crew.workers
    assert (first.worker_id, first.state, first.slots, first.in_flight) == ("worker-1", "accepting", 2, 1)
    assert first.disk is not None
    assert first.disk.artifact_bytes == 1536
    assert look.crew.ids == {"worker-1"}
    assert look.queries[0].repeated == 2
    assert look.document == {"crew": crew(worker()), "queries": [query()]}


@pytest.mark.parametrize("missing", ["slots", "state", "heard_s_ago"])
def test_a_figure_that_is_missing_is_an_error_and_no_zero(script: Script, missing: str) -> None:
    told = worker()
    del told[missing]
    script.answers["/v1/crew"] = (200, crew(told))
    with pytest.raises(QuarterdeckError, match=f"its answer has no '{missing}'"):
        ask_crew(Client(Access(script.url)))


def test_a_query_that_failed_is_an_error_with_its_code(script: Script) -> None:
    failed = query(state="failed", error={"code": "attempts_exhausted", "message": "worker-1 was lost"})
    script.answers[f"/v1/queries/{QUERY_ID}"] = (200, failed)
    raised = ask_query(Client(Access(script.url)), QUERY_ID).raised()
    assert raised is not None
    assert raised.code is ErrorCode.ATTEMPTS_EXHAUSTED
    assert "worker-1 was lost" in str(raised)


def test_a_request_that_could_not_be_sent_leaves_nothing_open(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection was there, and broke; that its socket is closed is checked after every test."""

    def connect_and_break(connection: http.client.HTTPConnection, *_: object) -> None:
        connection.connect()
        kept.append(connection)
        raise BrokenPipeError(32, "Broken pipe")

    kept: list[http.client.HTTPConnection] = []
    monkeypatch.setattr(http.client.HTTPConnection, "request", connect_and_break)
    with pytest.raises(QuarterdeckError, match="broken pipe"):
        Client(Access(script.url)).post("/v1/scan", {}, accept="*/*", timeout_s=1)
    assert kept[0].sock is None


@pytest.mark.parametrize(
    "status, answer",
    [
        (401, error("unauthenticated", "the request was not let in", "it has no token", "send `Authorization`")),
        (401, "who are you"),
        (403, "forbidden"),
    ],
)
def test_who_is_not_let_in_hears_what_to_type(script: Script, status: int, answer: Any) -> None:
    script.answers["/v1/crew"] = (status, answer)
    told = failure(script.url)
    assert told.code is ErrorCode.UNAUTHENTICATED
    for words in ("--token-file", "QUARTERDECK_TOKEN", "`quarterdeck token`"):
        assert words in told.next_step


@pytest.mark.parametrize(
    "said, why",
    [
        (bytes((0, 0, 30, 4, 0, 0, 0, 0, 0, 0, 3)) + bytes(27), "it speaks HTTP/2, as the control port does"),
        (b"SSH-2.0-" + b"x" * 5000 + b"\r\n", f"it does not speak HTTP ('SSH-2.0-{'x' * 52}')"),
    ],
    ids=["control port", "something else"],
)
def test_what_speaks_another_protocol_is_told_in_a_line(said: bytes, why: str) -> None:
    def talk(connected: socket.socket) -> None:
        connected.sendall(said)
        connected.recv(65536)

    with peer(talk) as place:
        error = failure(f"http://{place}")
    assert error.code is ErrorCode.PROTOCOL
    assert error.why.startswith(why)
    assert len(error.why) < 200
