"""Arrow's stream over HTTP: it gives batches, and makes sure that they are all there.

Neither HTTP nor pyarrow does that: if Arrow's end marker is missing, pyarrow takes it for a normal end. So the last
bytes are checked here.
"""

import http.client
import io
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

_arrow: Final[Any] = pyarrow
_END_MARKER: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""See https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format"""

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""
Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""


class CutOffError(Exception):
    """The stream ended before its end."""


class ArrowAnswer:
    """Read it once. `schema` is None when nothing came at all, which is how an answer without any row looks."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        """Waits for the first bytes."""
        self._body = _Body(response)
        self.schema: Schema | None = None
        self._reader: Any = None
        with _Cuts():
            if self._body.is_empty():
                return
            self._reader = _arrow.ipc.open_stream(self._body)
            self.schema = self._reader.schema

    def __iter__(self) -> Iterator[Batch]:
        while self._reader is not None:
            with _Cuts():
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    self._check_end()
                    return
            yield batch

    def _check_end(self) -> None:
        while self._body.read(1024):
            pass  # nothing may follow the end marker: if something does, that was not the end
        if self._body.tail != _END_MARKER:
            raise CutOffError("Arrow's end marker did not come")


class _Cuts:
    """What a connection that was cut off looks like."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, http.client.HTTPException | OSError | _arrow.ArrowInvalid):
            raise CutOffError(str(error) or repr(error)) from error


class _Body(io.RawIOBase):
    """The body of a response as a file, of which the last bytes are remembered."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._ahead = b""
        self.tail = b""

    def readable(self) -> bool:
        return True

    def is_empty(self) -> bool:
        if not self._ahead:
            self._ahead = self._response.read(1)
        return not self._ahead

    def read(self, size: int = -1, /) -> bytes:
        data = self._ahead
        self._ahead = b""
        if size < 0:
            data += self._response.read()
        elif size > len(data):
            data += self._response.read(size - len(data))
        self.tail = (self.tail + data[-len(_END_MARKER) :])[-len(_END_MARKER) :]
        return data
