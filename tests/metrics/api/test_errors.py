"""Errors are told as Prometheus tells them."""

import copy
import json

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.api.errors import BadRequest, error_answer, invalid_parameter, render_error
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.syntax.parser import parse


@pytest.mark.parametrize(
    "code, status, error_type",
    [
        (ErrorCode.INVALID_ARGUMENT, 400, "bad_data"),
        (ErrorCode.NOT_FOUND, 404, "not_found"),
        (ErrorCode.UNAUTHENTICATED, 401, "unauthenticated"),
        (ErrorCode.NO_WORKER, 503, "unavailable"),
        (ErrorCode.ATTEMPTS_EXHAUSTED, 503, "unavailable"),
        (ErrorCode.WORK_FAILED, 422, "execution"),
        (ErrorCode.DEADLINE_EXCEEDED, 503, "timeout"),
        (ErrorCode.CANCELED, 499, "canceled"),
        (ErrorCode.RESOURCE_EXHAUSTED, 503, "unavailable"),
        (ErrorCode.PROTOCOL, 500, "internal"),
        (ErrorCode.UNAVAILABLE, 503, "unavailable"),
        (ErrorCode.INTERNAL, 500, "internal"),
    ],
)
def test_each_code_has_a_status_and_a_type(code: ErrorCode, status: int, error_type: str) -> None:
    answer = error_answer(QuarterdeckError(code, "what", "why", "next"))
    assert (answer.status, answer.error_type, answer.text) == (status, error_type, "what: why; next")


def test_every_code_is_there() -> None:
    for code in ErrorCode:
        assert error_answer(QuarterdeckError(code, "what", "why", "next")).status >= 400


def test_an_error_of_the_query_names_its_parameter() -> None:
    with pytest.raises(ParseError) as raised:
        parse("sum(")
    assert error_answer(raised.value).text.startswith('invalid parameter "query": 1:5: parse error: ')


def test_errors_of_execution_and_limits_are_in_the_words_of_prometheus() -> None:
    for error in (ExecutionError("reason"), LimitExceeded("reason", "ask for less")):
        answer = error_answer(error)
        assert (answer.status, answer.error_type, answer.text) == (422, "execution", "reason")


def test_the_body_is_json_whatever_the_text() -> None:
    answer = error_answer(BadRequest('cannot parse "\udcff\n"'))
    assert json.loads(render_error(answer)) == {
        "status": "error",
        "errorType": "bad_data",
        "error": 'cannot parse "\ufffd\n"',
    }


def test_a_bad_request_can_be_copied() -> None:
    error = invalid_parameter("start", "it is late")
    again = copy.copy(error)
    assert (again.reason, again.message) == (error.reason, error.message)
    assert error.message == (
        'the request was not understood: invalid parameter "start": it is late; give start another value'
    )
