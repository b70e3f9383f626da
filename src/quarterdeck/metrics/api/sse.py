"""Frames of server-sent events that are no samples: signs of life, and the end.

There is no `event:` line: the member `type` says what a frame is.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from quarterdeck.metrics.api.errors import ErrorAnswer
from quarterdeck.metrics.api.json_text import json_bytes

HEARTBEAT_S: Final = 15.0
"""How often a client hears something: less than the minute after which proxies close what is silent."""
HEARTBEAT: Final = b'data: {"type":"heartbeat"}\n\n'


def done(
    error: ErrorAnswer | None = None,
    warnings: Sequence[str] = (),
    infos: Sequence[str] = (),
    extra: Mapping[str, object] | None = None,
) -> bytes:
    """The last frame. A stream that ends without one was cut off.

    >>> done(warnings=["one worker was not reached"])
    b'data: {"type":"done","data":{"status":"ok","warnings":["one worker was not reached"]}}\\n\\n'
    """
    data: dict[str, object] = {"status": "ok" if error is None else "error"}
    if error is not None:
        data |= {"errorType": error.error_type, "error": error.text}
    data |= {name: list(texts) for name, texts in (("warnings", warnings), ("infos", infos)) if texts}
    return b'data: {"type":"done","data":%s}\n\n' % json_bytes(data | dict(extra or {}))
