"""One scan over HTTP: the request, its rows as they come, and an error if rows are missing.

pyarrow is loaded after the request was sent, while the coordinator works.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.terminal.client import Client, Exchange
from quarterdeck.terminal.documents import QueryReport, ask_query

if TYPE_CHECKING:
    from quarterdeck.scan.commands.arrow_answer import ArrowAnswer, Batch, Schema

_ARROW: Final = "application/vnd.apache.arrow.stream"
_LATE_S: Final = 30.0
"""How much later than its time limit a coordinator may say that it is over."""
_ENDING_S: Final = 2.0
"""How long a query may take to end after its answer was cut off."""
_LOOK_S: Final = 0.05


class ScanStream:
    """Use it as a context: the request is sent at its beginning, and leaving it early cancels the query."""

    def __init__(self, client: Client, document: Mapping[str, object], *, timeout_s: float | None = None) -> None:
        self._client = client
        self._document: dict[str, object] = {**document, "format": "arrow"}
        if timeout_s is not None:
            self._document["timeout_s"] = timeout_s
        self._timeout_s = timeout_s
        self._began_at = time.monotonic()
        self._exchange: Exchange | None = None
        self._answer: ArrowAnswer | None = None
        self.query_id = ""
        """Known once it has begun."""

    def __enter__(self) -> Self:
        limit_s = None if self._timeout_s is None else self._timeout_s + _LATE_S
        self._exchange = self._client.post("/v1/scan", self._document, accept=_ARROW, timeout_s=limit_s)
        return self

    def __exit__(self, *_: object) -> None:
        if self._exchange is not None:
            self._exchange.close()

    def cut(self) -> None:
        """From another thread: ends it."""
        if self._exchange is not None:
            self._exchange.cut()

    def begin(self) -> "Schema | None":
        """Waits for the first rows. None when there are none at all."""
        from quarterdeck.scan.commands.arrow_answer import ArrowAnswer, CutOffError  # noqa: PLC0415 - see above

        assert self._exchange is not None, "it is used as a context"
        response = self._exchange.answer()
        query_id: Any = response.headers.get("x-query-id")
        if not query_id:
            raise self._client.stranger("its answer has no X-Query-Id")
        self.query_id = str(query_id)
        try:
            self._answer = ArrowAnswer(response)
        except CutOffError as error:
            raise self._why_cut(error) from None
        if self._answer.schema is None:
            self._check_empty()
        return self._answer.schema

    def __iter__(self) -> "Iterator[Batch]":
        """The rows, to their end. Raises when they were not all, and why as far as the coordinator knows."""
        from quarterdeck.scan.commands.arrow_answer import CutOffError  # noqa: PLC0415 - see above

        assert self._answer is not None, "it has begun"
        try:
            yield from self._answer
        except CutOffError as error:
            raise self._why_cut(error) from None

    def _check_empty(self) -> None:
        """An answer without a byte has no end marker either; then the coordinator has to say that it was all."""
        query = self._ended_query()
        if query is None or query.state != "succeeded" or query.rows:
            raise self._why_cut("nothing came")

    def _why_cut(self, error: Exception | str) -> QuarterdeckError:
        query = self._ended_query()
        what = "the answer was cut off"
        if query is None:
            return QuarterdeckError(
                ErrorCode.UNAVAILABLE, what, f"{error}, and the coordinator is gone", "ask again when it is back"
            )
        raised = query.raised()
        if raised is not None:
            return raised
        if self._timeout_s is not None and time.monotonic() - self._began_at >= self._timeout_s:
            return QuarterdeckError(
                ErrorCode.DEADLINE_EXCEEDED,
                f"query {self.query_id} was canceled",
                f"it had {self._timeout_s:g} s and was not finished",
                "allow more time with --timeout-s, or ask for less",
            )
        return QuarterdeckError(
            ErrorCode.UNAVAILABLE,
            what,
            f"{error}; to the coordinator the query is {query.state}",
            "see the coordinator's log, and ask again",
        )

    def _ended_query(self) -> QueryReport | None:
        """What became of it; None when nobody can tell."""
        until = time.monotonic() + _ENDING_S
        try:
            while (query := ask_query(self._client, self.query_id)).state == "running" and time.monotonic() < until:
                time.sleep(_LOOK_S)
        except QuarterdeckError:
            return None
        return query
