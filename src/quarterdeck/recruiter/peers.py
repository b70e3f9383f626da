"""What all clients of recruiters and of recruited workers have in common: connections with the crew's token and TLS,
and answers of bounded length."""

import ssl as tls
from collections.abc import Callable
from typing import Final

from quarterdeck.http.client import Answer, HttpClient, NotHttpError, Origin
from quarterdeck.http.error_documents import parse_error
from quarterdeck.stores.limits import MIB

CONNECT_S: Final = 5.0
ANSWER_S: Final = 10.0
"""Beyond what was agreed on, before a peer counts as silent. Workers give a sign of life every two seconds."""
_DOCUMENT_BYTES: Final = 16 * MIB
"""More than the longest answer that makes sense."""
JSON_HEADERS: Final = {"Content-Type": "application/json"}


class Peers:
    """A base of clients."""

    def __init__(
        self, *, authorize: Callable[[Origin], str | None] | None = None, ssl: tls.SSLContext | None = None
    ) -> None:
        self.scheme = "http" if ssl is None else "https"
        self.client = HttpClient(
            headers={"Accept-Encoding": "identity"}, stall_timeout_s=CONNECT_S, ssl=ssl, authorize=authorize
        )

    async def close(self) -> None:
        """When nothing of it is under way any more."""
        await self.client.close()


async def whole(answer: Answer) -> bytes:
    """All of an answer that is a document."""
    pieces, length = list[bytes](), 0
    while data := await answer.read():
        pieces.append(data)
        length += len(data)
        if length > _DOCUMENT_BYTES:
            raise NotHttpError("the answer is longer than any that makes sense")
    return b"".join(pieces)


def words(text: bytes) -> str:
    """What an answer says that is an error, in few words."""
    try:
        return str(parse_error(text))
    except ValueError:
        return text[:200].decode("utf-8", "replace")
