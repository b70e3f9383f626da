"""An error as JSON, written and read: every server of ours answers with this form, and every client of ours understands
it.

{"error": {"code": "not_found", "what": "…", "why": "…", "next_step": "…", "retryable": false}}
"""

import json
from typing import Any, Final, cast

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_MOST_WORDS: Final = 4_000
"""How many characters of each part are kept. The rest of an error that quotes a whole file is cut off."""


def error_document(error: QuarterdeckError) -> dict[str, object]:
    return {
        "error": {
            "code": error.code.value,
            "what": error.what,
            "why": error.why,
            "next_step": error.next_step,
            "retryable": error.retryable,
        }
    }


def rendered(error: QuarterdeckError) -> bytes:
    """Half of a surrogate pair, which only a client's JSON can have brought, is escaped as JSON does it."""
    return json.dumps(error_document(error), ensure_ascii=False).encode(errors="backslashreplace")


def parse_error(body: bytes) -> QuarterdeckError:
    """The error in an answer, to which somebody in between may have added words; anything else raises `ValueError`."""
    try:
        told: object = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _unreadable(error) from None
    return error_of(told)


def error_of(told: object) -> QuarterdeckError:
    """The error that stands in a document, as it was raised elsewhere; anything else raises `ValueError`."""
    try:
        document = cast("dict[str, Any]", told)
        code = ErrorCode(document["code"])
        parts = [document[name] for name in ("what", "why", "next_step")]
        retryable = document["retryable"]
    except (ValueError, TypeError, KeyError) as error:
        raise _unreadable(error) from None
    if not isinstance(retryable, bool) or not all(isinstance(part, str) for part in parts):
        raise ValueError("an error that cannot be read: a part of it has another type")
    what, why, next_step = (cast("str", part)[:_MOST_WORDS] for part in parts)
    f"{what}{why}{next_step}".encode()  # half of a surrogate pair is no text, and its error is a ValueError
    return QuarterdeckError(code, what, why, next_step, retryable)


def _unreadable(error: Exception) -> ValueError:
    return ValueError(f"an error that cannot be read: {type(error).__name__}: {str(error)[:200]}")
