"""Server-sent events from bytes that come in pieces of any size; see
https://html.spec.whatwg.org/#parsing-an-event-stream.

Lines end with a line feed alone, as ours do. Everything before it is data, including a carriage return.
"""

from collections.abc import Iterator

_EVENT = b"event: "
_DATA = b"data: "
_NEXT_DATA = b"\ndata: "


class EventSplitter:
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._looked_at = 0

    def feed(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """The events that are whole now, each with its name and its lines of data."""
        self._buffer += piece
        while (end := self._buffer.find(b"\n\n", self._looked_at)) >= 0:
            block = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            self._looked_at = 0
            event = _read(block)
            if event is not None:
                yield event
        self._looked_at = max(0, len(self._buffer) - 1)


def _read(block: bytes) -> tuple[str, bytes] | None:
    """
    >>> _read(b"event: rows\\ndata: 1\\ndata: 2"), _read(b": still here"), _read(b"id: 7\\ndata:1\\ndata")
    (('rows', b'1\\n2'), None, ('message', b'1\\n'))
    """
    first, _, rest = block.partition(b"\n")
    if first.startswith(_EVENT) and rest.startswith(_DATA) and rest.count(b"\n") == rest.count(_NEXT_DATA):
        return first[len(_EVENT) :].decode(), rest[len(_DATA) :].replace(_NEXT_DATA, b"\n")  # most of them, in one go
    name = "message"
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode()
        elif field == b"data":
            data.append(value)
    return (name, b"\n".join(data)) if data else None
