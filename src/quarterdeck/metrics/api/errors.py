"""Errors as the API of Prometheus tells them: a status, a type and a text.

The text is in Prometheus' words where it has some (`reason`), so that clients that look for them find them. Elsewhere
it is the whole message of the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.syntax.quoting import quote


class BadRequest(QuarterdeckError):
    """A parameter is missing or makes no sense; `reason` is what Prometheus says then."""

    def __init__(self, reason: str, next_step: str = "correct the request") -> None:
        super().__init__(ErrorCode.INVALID_ARGUMENT, "the request was not understood", reason, next_step)
        self.args = (reason, next_step)
        self.reason: Final = reason


def invalid_parameter(name: str, reason: str) -> BadRequest:
    """The error for a parameter with a wrong value.

    >>> invalid_parameter("end", "end timestamp must not be before start time").reason
    'invalid parameter "end": end timestamp must not be before start time'
    """
    return BadRequest(f"invalid parameter {quote(name)}: {reason}", f"give {name} another value")


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What a client gets instead of an answer."""

    status: int
    """Of HTTP."""
    error_type: str
    text: str


_ANSWERS: Final[Mapping[ErrorCode, tuple[int, str]]] = MappingProxyType(
    {
        ErrorCode.INVALID_ARGUMENT: (400, "bad_data"),
        ErrorCode.NOT_FOUND: (404, "not_found"),
        ErrorCode.UNAUTHENTICATED: (401, "unauthenticated"),  # ours: Prometheus has no type for it
        ErrorCode.PERMISSION_DENIED: (403, "forbidden"),  # ours, too
        ErrorCode.NO_WORKER: (503, "unavailable"),
        ErrorCode.ATTEMPTS_EXHAUSTED: (503, "unavailable"),
        ErrorCode.QUARANTINED: (422, "execution"),
        ErrorCode.WORK_FAILED: (422, "execution"),
        ErrorCode.DEADLINE_EXCEEDED: (503, "timeout"),
        ErrorCode.CANCELED: (499, "canceled"),
        ErrorCode.RESOURCE_EXHAUSTED: (422, "execution"),
        ErrorCode.PROTOCOL: (500, "internal"),
        ErrorCode.UNAVAILABLE: (503, "unavailable"),
        ErrorCode.DEPOSED: (503, "unavailable"),
        ErrorCode.INTERNAL: (500, "internal"),
    }
)


def error_answer(error: QuarterdeckError) -> ErrorAnswer:
    """How a client is told.

    >>> error_answer(ExecutionError("invalid label name"))
    ErrorAnswer(status=422, error_type='execution', text='invalid label name')
    """
    status, error_type = _ANSWERS[error.code]
    if error.code is ErrorCode.RESOURCE_EXHAUSTED and error.retryable:  # there is no room now, and may be later
        status, error_type = _ANSWERS[ErrorCode.UNAVAILABLE]
    return ErrorAnswer(status, error_type, _text(error))


def _text(error: QuarterdeckError) -> str:
    match error:
        case ParseError():
            return invalid_parameter("query", error.reason).reason
        case BadRequest() | ExecutionError() | LimitExceeded():
            return error.reason
        case _:
            return error.message


def render_error(answer: ErrorAnswer) -> bytes:
    """The body.

    >>> render_error(ErrorAnswer(503, "timeout", "query timed out in query execution"))
    b'{"status":"error","errorType":"timeout","error":"query timed out in query execution"}'
    """
    return json_bytes({"status": "error", "errorType": answer.error_type, "error": answer.text})
