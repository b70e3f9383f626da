"""One search over HTTP: the request, its events as they come, and an error if they end before the last one."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Self

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.commands.search_events import Done, Event, ToldRows, read_done, read_progress
from quarterdeck.terminal.client import Client, Exchange, NoCoordinatorError
from quarterdeck.terminal.event_stream import EventSplitter
from quarterdeck.terminal.tenants import tenant_headers

_EVENTS: Final = "text/event-stream"
_READ_BYTES: Final = 256 * 1024
_LATE_S: Final = 30.0
"""How much later than its time limit a coordinator may say that it is over."""


_ALONE: Final = "--local searches without one"


class SearchStream:
    """Use it as a context: the request is sent at its beginning, and leaving it early cancels the search."""

    def __init__(
        self,
        client: Client,
        document: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        tenant: str | None = None,
    ) -> None:
        self._client = client
        self._headers = tenant_headers(tenant)
        self._document = document if timeout_s is None else {**document, "timeout_s": timeout_s}
        self._limit_s = None if timeout_s is None else timeout_s + _LATE_S
        self._exchange: Exchange | None = None

    def __enter__(self) -> Self:
        try:
            self._exchange = self._client.post(
                "/v1/search", self._document, accept=_EVENTS, timeout_s=self._limit_s, headers=self._headers
            )
        except NoCoordinatorError as error:
            raise NoCoordinatorError(error.code, error.what, error.why, f"{error.next_step}; {_ALONE}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._exchange is not None:
            self._exchange.close()

    def pour(self, take: Callable[[Event], None]) -> None:
        """Raises when the last event does not come."""
        for event in self._events():
            take(event)

    def _events(self) -> Iterator[Event]:
        assert self._exchange is not None, "it is used as a context"
        response = self._exchange.answer()
        if not (response.getheader("content-type") or "").startswith(_EVENTS):
            raise self._client.stranger("its answer is not a stream of events")
        splitter = EventSplitter()
        while True:
            for name, data in splitter.feed(self._more(response)):
                event = self._read(name, data)
                if event is not None:
                    yield event
                if isinstance(event, Done):
                    return

    def _more(self, response: http.client.HTTPResponse) -> bytes:
        try:
            piece = response.read1(_READ_BYTES)
        except TimeoutError:
            raise self._cut_off("nothing came for too long") from None
        except (http.client.HTTPException, OSError) as error:
            raise self._cut_off(getattr(error, "strerror", None) or "the connection was lost") from None
        if not piece:
            raise self._cut_off("the coordinator hung up before the end")
        return piece

    def _read(self, name: str, data: bytes) -> Event | None:
        try:
            match name:
                case "rows":
                    return ToldRows(data + b"\n")
                case "progress":
                    return read_progress(json.loads(data))
                case "done":
                    return read_done(json.loads(data))
                case _:
                    return None  # of a later release
        except KeyError as error:
            raise self._client.stranger(f"its event `{name}` has no {error}") from None
        except (AttributeError, TypeError, ValueError) as error:
            raise self._client.stranger(f"its event `{name}` cannot be read ({error})") from None

    def _cut_off(self, why: str) -> QuarterdeckError:
        return QuarterdeckError(
            ErrorCode.UNAVAILABLE,
            "the answer was cut off",
            why,
            f"see the log of the coordinator at {self._client.url}, and ask again",
        )
