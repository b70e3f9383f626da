"""The error of a server of the Prometheus HTTP API, as one of our errors."""

import json
import re
from http.client import HTTPResponse
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.terminal.client import NAME_THE_TOKEN, Client

_PLACE: Final = re.compile(r"\b(\d+):(\d+): parse error: ")
_MOST_BEFORE: Final = 60
_MOST_SHOWN: Final = 120
_CODES: Final = {
    "bad_data": (ErrorCode.INVALID_ARGUMENT, "change the query or its times"),
    "execution": (ErrorCode.WORK_FAILED, "change the query"),
    "timeout": (ErrorCode.DEADLINE_EXCEEDED, "allow more time with --timeout, or ask for less"),
    "canceled": (ErrorCode.CANCELED, "ask again"),
    "unavailable": (ErrorCode.UNAVAILABLE, "see `quarterdeck status`, and ask again"),
    "not_found": (ErrorCode.NOT_FOUND, "check --tenant and --url"),
    "internal": (ErrorCode.INTERNAL, "see the coordinator's log"),
    "too_many_requests": (ErrorCode.RESOURCE_EXHAUSTED, "ask for less, or later"),
    "unauthorized": (ErrorCode.UNAUTHENTICATED, NAME_THE_TOKEN),
}
_TYPES: Final = {
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    429: "too_many_requests",
    503: "unavailable",
}
"""What a status means where its type is not known."""


def query_refusal(client: Client, response: HTTPResponse, body: bytes, query: str) -> QuarterdeckError:
    """With the query and its wrong place, where the server names one."""
    try:
        document = json.loads(body)
        kind, text = str(document["errorType"]), str(document["error"])
    except (ValueError, KeyError, TypeError):
        return client.refusal(response, body)
    code, next_step = _CODES.get(kind) or _CODES[_TYPES.get(response.status, "execution")]
    place = _PLACE.search(text)
    if place is not None:
        marked = mark_place(query, int(place[1]), int(place[2]))
        text, next_step = text[place.start() :], f"correct it here:\n{marked}" if marked else next_step
        return QuarterdeckError(code, "the query was not understood", text, next_step)
    return QuarterdeckError(code, f"the query was not answered ({kind})", text, next_step)


def mark_place(query: str, line: int, column: int) -> str | None:
    """The line, and a caret under the column, both counted from 1; None when there is no such place.

    >>> print(mark_place("sum(\\nrate(m)\\n)", 2, 6))
      rate(m)
           ^
    """
    lines = query.split("\n")
    if not 1 <= line <= len(lines) or not 1 <= column <= len(lines[line - 1]) + 1:
        return None
    left = max(0, column - _MOST_BEFORE)
    shown = lines[line - 1].replace("\t", " ")[left : left + _MOST_SHOWN]
    return f"  {shown}\n  {' ' * (column - 1 - left)}^"
