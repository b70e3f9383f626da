"""Errors over HTTP: one form for all of them, and nothing of the inside."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.http.errors import AnswerCutOffError, ErrorsAsJson, add_error_handlers, error_response, send_error
from tests.http.asked import Answer, ask, connected, respond, served


def failing_with(error: Exception) -> FastAPI:
    """An application whose /fail raises; what nobody expected is collected in `app.state.unexpected`."""
    app = FastAPI()
    app.state.unexpected = list[Exception]()
    add_error_handlers(app, app.state.unexpected.append)

    async def fail() -> None:
        raise error

    async def take(limit: int, name: str) -> None:
        pass

    app.add_api_route("/fail", fail)
    app.add_api_route("/take", take)
    router = APIRouter()
    router.add_api_route("/both", fail)
    router.add_api_route("/both", fail, methods=["POST"], operation_id="both_post")
    app.include_router(router)
    return app


def answer_to(error: Exception, path: str = "/fail", method: str = "GET") -> tuple[Answer, list[Exception]]:
    app = failing_with(error)
    return asyncio.run(ask(app, path, method)), app.state.unexpected


def error_of(answer: Answer) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json) == {"error"}
    assert set(answer.json["error"]) == {"code", "what", "why", "next_step", "retryable"}
    return answer.json["error"]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_the_status_of_the_table(code: ErrorCode) -> None:
    answer, unexpected = answer_to(QuarterdeckError(code, "it failed", "für einen Grund", "try"))
    assert answer.status == ERROR_TABLE[code].http_status
    assert error_of(answer) == {
        "code": code.value,
        "what": "it failed",
        "why": "für einen Grund",
        "next_step": "try",
        "retryable": ERROR_TABLE[code].retryable,
    }
    assert unexpected == []


def test_whether_to_retry_is_what_the_raiser_says() -> None:
    answer, _ = answer_to(QuarterdeckError(ErrorCode.UNAVAILABLE, "a", "b", "c", retryable=False))
    assert error_of(answer)["retryable"] is False


def test_a_subclass_is_answered_as_its_root() -> None:
    class OwnError(QuarterdeckError):
        pass

    answer, _ = answer_to(OwnError(ErrorCode.NOT_FOUND, "a", "b", "c"))
    assert answer.status == 404


def test_a_bug_is_internal_and_keeps_its_words_to_itself() -> None:
    bug = RuntimeError("password=hunter2")
    answer, unexpected = answer_to(bug)
    assert answer.status == 500
    assert error_of(answer)["code"] == "internal"
    assert error_of(answer)["what"] == "GET /fail failed"
    assert b"hunter2" not in answer.body
    assert b"Traceback" not in answer.body
    assert unexpected == [bug]


def test_a_bug_is_logged_when_nobody_else_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    add_error_handlers(app)

    async def fail() -> None:
        raise RuntimeError("a bug")

    app.add_api_route("/fail", fail)
    assert asyncio.run(ask(app, "/fail")).status == 500
    assert "RuntimeError: a bug" in caplog.text


def test_a_wrong_parameter_is_named_with_what_was_sent() -> None:
    answer, _ = answer_to(RuntimeError(), "/take?limit=many")
    error = error_of(answer)
    assert (answer.status, error["code"]) == (400, "invalid_argument")
    assert error["what"] == "the request for /take cannot be understood"
    assert "query.limit is 'many': " in error["why"]
    assert "query.name: Field required" in error["why"]


def test_a_long_wrong_value_is_not_repeated_whole() -> None:
    answer, _ = answer_to(RuntimeError(), f"/take?name=x&limit={'9x' * 500}")
    assert len(error_of(answer)["why"]) < 300


def test_an_unknown_path_is_not_found() -> None:
    answer, _ = answer_to(RuntimeError(), "/nowhere")
    assert (answer.status, error_of(answer)["code"]) == (404, "not_found")
    assert error_of(answer)["what"] == "there is nothing at /nowhere"


def test_a_wrong_method_tells_the_right_one() -> None:
    answer, _ = answer_to(RuntimeError(), "/fail", "DELETE")
    assert (answer.status, error_of(answer)["code"]) == (405, "invalid_argument")
    assert error_of(answer)["why"] == "it takes GET"
    assert answer.headers["allow"] == "GET"


def test_a_wrong_method_tells_those_of_all_routes_of_the_path() -> None:
    answer, _ = answer_to(RuntimeError(), "/both", "DELETE")
    assert (error_of(answer)["why"], answer.headers["allow"]) == ("it takes GET, POST", "GET, POST")


@pytest.mark.parametrize(
    "status, code",
    [
        (404, "not_found"),
        (409, "invalid_argument"),
        (429, "resource_exhausted"),
        (501, "internal"),
        (503, "unavailable"),
        (504, "deadline_exceeded"),
    ],
)
def test_what_the_framework_raises_keeps_status_words_and_headers(status: int, code: str) -> None:
    answer, _ = answer_to(HTTPException(status, "because", {"Retry-After": "3"}))
    assert (answer.status, error_of(answer)["code"], error_of(answer)["why"]) == (status, code, "because")
    assert answer.headers["retry-after"] == "3"


def test_a_response_may_have_a_status_that_the_table_has_not() -> None:
    error = QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "a", "b", "c")
    response = error_response(error, 413, {"X-Limit": "1"})
    assert (response.status_code, response.headers["x-limit"]) == (413, "1")
    assert json.loads(bytes(response.body))["error"]["what"] == "a"


# Without a framework


def asked_of(error: Exception | None, begins: bool = False) -> tuple[Answer, list[Exception]]:
    unexpected: list[Exception] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begins or error is None:
            await respond(send, b"aye")
        if error is not None:
            raise error

    return asyncio.run(ask(ErrorsAsJson(app, unexpected.append), "/artifacts/x")), unexpected


def test_an_application_without_a_framework_is_answered_for_too() -> None:
    answer, unexpected = asked_of(QuarterdeckError(ErrorCode.NOT_FOUND, "a", "b", "c"))
    assert (answer.status, error_of(answer)["code"], unexpected) == (404, "not_found", [])
    bug = KeyError("secret")
    answer, unexpected = asked_of(bug)
    assert (answer.status, error_of(answer)["code"], unexpected) == (500, "internal", [bug])
    assert b"secret" not in answer.body
    answer, unexpected = asked_of(None)
    assert (answer.status, answer.body, unexpected) == (200, b"aye", [])


def test_an_error_after_the_response_has_begun_goes_on_to_the_server() -> None:
    with pytest.raises(AnswerCutOffError) as cut:
        asked_of(QuarterdeckError(ErrorCode.NOT_FOUND, "a", "b", "c"), begins=True)
    assert isinstance(cut.value.__cause__, QuarterdeckError)
    with pytest.raises(KeyError):
        asked_of(KeyError("x"), begins=True)


def test_a_client_that_goes_while_it_sends_is_no_bug() -> None:
    async def test() -> list[Message]:
        sent: list[Message] = []
        unexpected: list[Exception] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            raise ClientDisconnect

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await ErrorsAsJson(app, unexpected.append)({"type": "http"}, receive, send)
        assert unexpected == []
        return sent

    assert asyncio.run(test()) == []


def test_other_scopes_pass() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody asks")

    asyncio.run(ErrorsAsJson(app)({"type": "lifespan"}, nothing, nothing))
    assert seen == ["lifespan"]


def test_an_error_is_a_whole_response() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        error = QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "ü", "b", "c")
        await send_error(send, error, 416, [("content-range", "bytes */9")])

    answer = asyncio.run(ask(app, "/"))
    assert (answer.status, answer.headers["content-range"]) == (416, "bytes */9")
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert error_of(answer)["what"] == "ü"


# Over a connection


def test_a_connection_survives_a_bug() -> None:
    async def test() -> None:
        app = failing_with(RuntimeError("a bug"))
        async with served(app) as server, connected(server) as client:
            for _ in range(2):
                client.get("/fail")
                assert error_of(await client.answer())["code"] == "internal"

    asyncio.run(test())


def test_half_an_answer_is_not_taken_for_a_whole_one(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        app = failing_with(RuntimeError("a bug"))

        async def lines() -> AsyncIterator[bytes]:
            yield b"first\n"
            raise QuarterdeckError(ErrorCode.WORK_FAILED, "a", "b", "c")

        async def stream() -> StreamingResponse:
            return StreamingResponse(lines())

        app.add_api_route("/stream", stream)
        async with served(app) as server, connected(server) as client:
            client.get("/stream")
            received = await client.rest()
            assert b"first" in received
            assert not received.endswith(b"0\r\n\r\n")  # the end of a chunked body

    asyncio.run(test())
    assert caplog.records == []  # who cut it off has told why
