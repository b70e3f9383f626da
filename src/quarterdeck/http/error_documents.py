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
    """The error in an answer. Something in between may have added words to it. Anything else raises `ValueError`."""
    try:
        told: Any = json.loads(body)["error"]
        code = ErrorCode(told["code"])
        parts = [told[name] for name in ("what", "why", "next_step")]
        retryable = told["retryable"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"an error that cannot be read: {type(error).__name__}: {str(error)[:200]}") from None
    if not isinstance(retryable, bool) or not all(isinstance(part, str) for part in parts):
        raise ValueError("an error that cannot be read: a part of it has another type")
    what, why, next_step = (cast("str", part)[:_MOST_WORDS] for part in parts)
    f"{what}{why}{next_step}".encode()  # half of a surrogate pair is not text; the error is a ValueError
    return QuarterdeckError(code, what, why, next_step, retryable)
