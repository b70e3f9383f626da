"""What a coordinator reports about itself, its crew and its queries, read from JSON.

A value that is missing, or of another type, is an error: a missing figure must not look like a zero.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.terminal.client import Client
from quarterdeck.terminal.tenants import tenant_headers

T = TypeVar("T")
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DiskReport:
    artifact_bytes: int
    cache_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    worker_id: str
    node: str
    state: str
    in_flight: int
    slots: int
    credit: int
    heard_s_ago: float
    disk: DiskReport | None
    """None until the worker has told."""


@dataclass(frozen=True, slots=True)
class LeaderReport:
    name: str | None
    """None when nobody leads, as far as this coordinator knows."""
    is_this_one: bool = False


@dataclass(frozen=True, slots=True)
class CrewReport:
    name: str
    queue_depth: int
    oldest_age_s: float
    queries: int
    workers: tuple[WorkerReport, ...]
    leader: LeaderReport | None = None
    """None where no leader is elected."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(worker.worker_id for worker in self.workers)


@dataclass(frozen=True, slots=True)
class QueryReport:
    query_id: str
    kind: str
    """`metrics`, `scan` or `search`."""
    text: str
    tenant: str
    state: str
    works: int
    delivered: int
    attempts: int
    by_worker: Mapping[str, int]
    rows: int
    age_s: float
    """Since it was asked."""
    duration_s: float | None
    """None while it runs."""
    error: tuple[str, str] | None
    """Code and message."""

    @property
    def repeated(self) -> int:
        """Attempts beyond the first of each work: what failures cost."""
        return max(0, self.attempts - self.works)

    def raised(self) -> QuarterdeckError | None:
        """Why it failed, as an error; None when it has not."""
        if self.error is None:
            return None
        code, message = self.error
        known = ErrorCode(code) if code in ERROR_TABLE else ErrorCode.WORK_FAILED
        return QuarterdeckError(
            known, f"query {self.query_id} failed", message, "rows that were shown before are not the whole answer"
        )


@dataclass(frozen=True, slots=True)
class Look:
    """All there is to see at one moment."""

    crew: CrewReport
    queries: tuple[QueryReport, ...]
    """Those that run first, then those that ended, the latest first."""
    document: Document
    """Both as the coordinator told them."""

    @classmethod
    def take(cls, client: Client, tenant: str | None = None) -> "Look":
        """Of all, or of the workers and queries of one tenant."""
        headers = tenant_headers(tenant)
        crew, queries = client.get("/v1/crew", headers), client.get("/v1/queries", headers)
        return cls(
            _read(client, crew, _crew),
            _read(client, queries, lambda listed: tuple(map(_query, listed))),
            {"crew": crew, "queries": queries},
        )


def ask_crew(client: Client) -> CrewReport:
    return _read(client, client.get("/v1/crew"), _crew)


def ask_query(client: Client, query_id: str) -> QueryReport:
    return _read(client, client.get(f"/v1/queries/{query_id}"), _query)


def _read(client: Client, document: Any, read: Callable[[Any], T]) -> T:
    try:
        return read(document)
    except KeyError as error:
        raise client.stranger(f"its answer has no {error}") from None
    except (TypeError, ValueError) as error:
        raise client.stranger(f"its answer cannot be read ({error})") from None


def _crew(document: Document) -> CrewReport:
    own = document["coordinator"]
    return CrewReport(
        str(own["name"]),
        int(own["queue_depth"]),
        float(own["oldest_age_s"]),
        int(own["queries"]),
        tuple(_worker(worker) for worker in document["workers"]),
        _leader(document["leader"]) if "leader" in document else None,
    )


def _leader(document: Document | None) -> LeaderReport:
    if document is None:
        return LeaderReport(None)
    return LeaderReport(str(document["name"]), bool(document["is_this_one"]))


def _worker(document: Document) -> WorkerReport:
    disk = document["disk"]
    return WorkerReport(
        str(document["worker_id"]),
        str(document["node"]),
        str(document["state"]),
        int(document["in_flight"]),
        int(document["slots"]),
        int(document["credit"]),
        float(document["heard_s_ago"]),
        None
        if disk is None
        else DiskReport(int(disk["artifact_bytes"]), int(disk["cache_bytes"]), int(disk["free_bytes"])),
    )


def _query(document: Document) -> QueryReport:
    duration_s, error = document["duration_s"], document["error"]
    return QueryReport(
        str(document["query_id"]),
        str(document["kind"]),
        str(document["text"]),
        str(document["tenant"]),
        str(document["state"]),
        int(document["works"]),
        int(document["delivered"]),
        int(document["attempts"]),
        {str(name): int(number) for name, number in document["by_worker"].items()},
        int(document["rows"]),
        float(document["age_s"]),
        None if duration_s is None else float(duration_s),
        None if error is None else (str(error["code"]), str(error["message"])),
    )
