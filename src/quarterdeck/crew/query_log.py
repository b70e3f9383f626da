"""The queries of a process, of every kind, for people who look: what was asked, by whom, what became of it, and why.

It remembers those that run, and the last that ended. Of each kind, and of what went well and what did not, so many are
kept by themselves: a dashboard that asks a hundred times a second does not push out the scan that failed a minute ago.

A query is a light thing here: of a text only the beginning is ever looked at, and that is made fit to be shown at once,
so that whoever looks at hundreds of them does not hold up the event loop.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from types import TracebackType
from typing import Final, NewType, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.crew.clocks import wall_us
from quarterdeck.crew.observers.summaries import NO_FIGURES, QuerySummary
from quarterdeck.crew.ports import Clock
from quarterdeck.telemetry.masking import masked_text, printable

KEPT: Final = 128
"""Queries of a kind that ended well and are still remembered, and as many that did not."""
MOST_CHARACTERS: Final = 1000
"""Of a query's text, and of the reason of its failure."""
_GONE: Final = "whoever asked has gone, or its time was over"


QueryKind = NewType("QueryKind", str)
"""What is asked, for people: each capability that answers names its own."""


class QueryState(StrEnum):
    """How far a query is."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """Something is missing from its answer, and it said so."""
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def has_ended(self) -> bool:
        return self not in (QueryState.QUEUED, QueryState.RUNNING)


class Figures(Protocol):
    """How much of a query is done."""

    def document(self) -> Mapping[str, object]: ...


class AskedQuery:
    """One query; use it as a context, which it ends with. Made by `QueryLog.asked`."""

    __slots__ = (
        "_asked_at_us",
        "_described",
        "_details",
        "_error",
        "_figures",
        "_log",
        "_tenant",
        "_text",
        "_took_s",
        "_watched",
        "began_s",
        "kind",
        "query_id",
        "state",
    )

    def __init__(self, log: "QueryLog", query_id: QueryId, kind: QueryKind, text: str, tenant: str) -> None:
        self._log = log
        self.query_id: Final = query_id
        self.kind: Final = kind
        self._text = shown(text)
        self._tenant = tenant
        self.began_s: Final = log.now_s()
        self._asked_at_us: Final = wall_us()
        self.state = QueryState.QUEUED
        self._took_s: float | None = None
        self._error: tuple[str, str] | None = None
        self._figures: Figures | Mapping[str, object] | None = None
        self._watched: Callable[[], Mapping[str, object]] | None = None
        self._described: Callable[[], Mapping[str, object]] | None = None
        self._details: Mapping[str, object] | None = None

    def begin(self) -> None:
        """Its turn has come."""
        self.state = QueryState.RUNNING

    def watch(self, figures: Callable[[], Mapping[str, object]]) -> None:
        """Where its figures are to be asked for, until it ends; else they are those of the machine."""
        self._watched = figures

    def describe(self, details: Callable[[], Mapping[str, object]]) -> None:
        """Where more is to be asked for than all queries have in common, until it ends; then it is remembered."""
        self._described = details

    def partial(self, reason: str) -> None:
        """It ends well, and something is missing from its answer."""
        self._end(QueryState.PARTIAL, (ErrorCode.WORK_FAILED.value, reason))

    def end(self, error: BaseException | None) -> None:
        """It has ended, with this error or well. Again is fine; the first end counts."""
        if self.state.has_ended:
            return
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            reason: object = error.args[0] if error.args else None
            error = reason if isinstance(reason, QuarterdeckError) else error
        if error is None:
            self._end(QueryState.SUCCEEDED, None)
        elif isinstance(error, QuarterdeckError):
            state = QueryState.CANCELED if error.code is ErrorCode.CANCELED else QueryState.FAILED
            self._end(state, (error.code.value, f"{error.what}: {error.why}"))
        elif isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._end(QueryState.CANCELED, (ErrorCode.CANCELED.value, _GONE))
        else:
            told = "an error that nobody expected; see the log of this process"
            self._end(QueryState.FAILED, (ErrorCode.INTERNAL.value, told))

    def _end(self, state: QueryState, error: tuple[str, str] | None) -> None:
        self.state = state
        self._took_s = self._log.now_s() - self.began_s
        summary = self._log.summary_of(self.query_id)
        self._figures = summary if self._watched is None else self._watched()
        self._watched = None
        self._details = None if self._described is None else self._described()
        self._described = None
        if error is not None and summary is not None and summary.error is not None:
            canceled = ErrorCode.CANCELED.value
            if summary.error.code != canceled or error[0] == canceled:  # else the works ended for this error
                error = (summary.error.code, summary.error.message)  # without what is known anyway
        self._error = None if error is None else (error[0], shown(error[1]))
        self._log.ended(self)

    def __enter__(self) -> "AskedQuery":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    # For whoever looks

    @property
    def tenant(self) -> str:
        return self._tenant

    @property
    def text(self) -> str:
        """The beginning of it, without secrets."""
        return self._text

    @property
    def details(self) -> Mapping[str, object] | None:
        """What was described of it, as of now or of its end; None when nothing was."""
        return self._details if self._described is None else self._described()

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        age_s = self._log.now_s() - self.began_s
        figures = self._log.summary_of(self.query_id) if self._watched is None else self._watched()
        figures = figures if self._figures is None else self._figures
        told = figures if figures is None or isinstance(figures, Mapping) else figures.document()
        return {
            **NO_FIGURES,
            **(told or {}),
            "query_id": self.query_id,
            "kind": self.kind,
            "text": self._text,
            "tenant": printable(self._tenant),
            "state": self.state.value,
            "asked_at_s": round(self._asked_at_us / 1_000_000, 3),
            "age_s": round(age_s, 3),
            "duration_s": None if self._took_s is None else round(self._took_s, 6),
            "error": None if self._error is None else {"code": self._error[0], "message": self._error[1]},
        }


def shown(text: str) -> str:
    r"""The beginning of a stranger's text, for a terminal, a page or a log.

    >>> shown("select 'a'\n from read_csv('x?secret_access_key=hush')\x1b[2J")
    "select 'a' from read_csv('x?secret_access_key=***')\\x1b[2J"
    """
    cut = text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"
    return printable(masked_text(cut))


def no_summary(query_id: QueryId) -> QuerySummary | None:  # noqa: ARG001 - like those that know some
    """Where no query's works are given to the crew."""
    return None


class QueryLog:
    """Of one process, used on its event loop."""

    def __init__(self, clock: Clock, summary_of: Callable[[QueryId], QuerySummary | None] = no_summary) -> None:
        """`summary_of` knows what was done for queries whose works are given to the crew."""
        self._clock = clock
        self.summary_of: Final = summary_of
        self._running: dict[QueryId, AskedQuery] = {}
        self._ended: dict[QueryId, AskedQuery] = {}
        """In the order in which they ended."""
        self._kept: dict[tuple[QueryKind, bool], dict[QueryId, None]] = {}
        """The same, by kind and by whether they ended well."""

    def now_s(self) -> float:
        return self._clock.now()

    def asked(self, query_id: QueryId, kind: QueryKind, text: str, tenant: str) -> AskedQuery:
        """Remembers a query until it has ended, and then for a while."""
        query = self._running[query_id] = AskedQuery(self, query_id, kind, text, tenant)
        return query

    def ended(self, query: AskedQuery) -> None:
        """For a query to say."""
        query_id = query.query_id
        self._running.pop(query_id, None)
        self._ended[query_id] = query
        kept = self._kept.setdefault((query.kind, query.state is QueryState.SUCCEEDED), {})
        kept[query_id] = None
        if len(kept) > KEPT:
            oldest = next(iter(kept))
            del kept[oldest], self._ended[oldest]

    def __iter__(self) -> Iterator[AskedQuery]:
        """Those that run, the latest first, then those that wait, then those that ended, the latest first."""
        waiting: list[AskedQuery] = []
        for query in reversed(self._running.values()):
            if query.state is QueryState.RUNNING:
                yield query
            else:
                waiting.append(query)
        yield from waiting
        yield from reversed(self._ended.values())

    def documents(self, limit: int, tenant: str | None = None) -> list[dict[str, object]]:
        """The first of them; of one tenant, where one is named."""
        return [query.document() for query in islice(self._of(tenant), limit)]

    def details(self, kind: QueryKind, tenant: str | None = None) -> list[Mapping[str, object]]:
        """Of the queries of one kind that were described; of one tenant, where one is named."""
        found = (query.details for query in self._of(tenant) if query.kind == kind)
        return [details for details in found if details is not None]

    def find(self, query_id: QueryId, tenant: str | None = None) -> AskedQuery | None:
        """One of them, if it is the tenant's."""
        found = self._running.get(query_id) or self._ended.get(query_id)
        return found if found is not None and tenant in (None, found.tenant) else None

    def _of(self, tenant: str | None) -> Iterator[AskedQuery]:
        return (query for query in self if tenant in (None, query.tenant))
