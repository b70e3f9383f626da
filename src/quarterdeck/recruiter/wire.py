"""The documents of a recruiter, as they go over HTTP. The one place that knows their spellings: `node` is also
`node_name`, `N` is also `number_requested`, and answers have both.

A word that no document has is an error, so that a misspelled label does not get everybody's workers.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.http.errors import validation_problems
from quarterdeck.http.tenants import MOST_TENANT_CHARACTERS
from quarterdeck.recruiter.machine.pool import PoolFigures
from quarterdeck.recruiter.machine.tenant_pool import Registration
from quarterdeck.recruiter.model import Directive, Offer, Recruited
from quarterdeck.recruiter.ports import Registered

_HIGHEST_PORT: Final = 65535
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+):(?P<port>[0-9]{1,5})")
"""As a client of ours believes it: roots will connect to it."""
_MOST_LABELS: Final = 64
_MOST_SLOTS: Final = 10_000
_SHOWN: Final = 3
"""Of what is wrong with an answer."""
_MOST_WORKERS: Final = 1_000_000
"""More than any crew has: whoever asks for more has made a mistake."""


def worker_address(text: str) -> str:
    """The one spelling of an address to which roots may connect. Raises `ValueError` for anything else."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= _HIGHEST_PORT:
        raise PydanticCustomError("address", "it should be HOST:PORT")
    return f"{found['host']}:{int(found['port'])}"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("printable", "it should have only characters that can be printed")
    return text


_Address = Annotated[str, StringConstraints(max_length=300), AfterValidator(worker_address)]
_Node = Annotated[str, StringConstraints(min_length=1, max_length=253), AfterValidator(_printable)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=128), AfterValidator(_printable)]
_LabelOrNone = Annotated[str, StringConstraints(max_length=128), AfterValidator(_printable)]
_NodeOrNone = Annotated[str, StringConstraints(max_length=253), AfterValidator(_printable)]
_Tenant = Annotated[str, StringConstraints(min_length=1, max_length=MOST_TENANT_CHARACTERS)]
_Reservation = Annotated[str, StringConstraints(max_length=1000, pattern="^[ -~]*$")]
"""It goes into a header."""


class RegisterBody(BaseModel):
    """A worker that may be given to somebody."""

    model_config = ConfigDict(extra="forbid", strict=True)

    addr: _Address = Field(description="`host:port` by which roots reach the worker. No other worker may have it.")
    node_name: _Node | None = Field(None, description="The machine of the worker.")
    node: _Node | None = Field(None, description="The same as `node_name`; one of the two is needed.")
    timeout: int = Field(
        30_000, gt=0, le=3_600_000, description="After how many milliseconds at most it is told to register again."
    )
    labels: Annotated[list[_Label], FailFast()] = Field(
        default_factory=list[_Label],
        max_length=_MOST_LABELS,
        description="What the worker is for: it is given to requests that name one of these labels, and to requests "
        "without a label. Without labels it is for everybody.",
    )
    label: _LabelOrNone = Field("", description="One more of `labels`.")
    slots: int = Field(1, ge=1, le=_MOST_SLOTS, description="How many requests it can work on at the same time.")


class RecruitBody(BaseModel):
    """How many workers are wanted."""

    model_config = ConfigDict(extra="forbid", strict=True)

    number_requested: int | None = Field(None, ge=1, le=_MOST_WORKERS, description="How many workers at most.")
    N: int | None = Field(
        None, ge=1, le=_MOST_WORKERS, description="The same as `number_requested`; one of the two is needed."
    )
    label: _LabelOrNone = Field("", description="What the workers are for.")


class RecruitedWorker(BaseModel):
    """As it is told here; `GivenWorker` is one that somebody else tells of."""

    addr: str
    node: str
    node_name: str
    slots: int
    reservation: str = Field(description="For the header `X-Reservation` of requests to this worker.")


class RecruitAnswer(BaseModel):
    workers: list[RecruitedWorker]


class GivenWorker(BaseModel):
    """As another recruiter tells it, which may be of another kind and say less, or more."""

    model_config = ConfigDict(extra="ignore", strict=True)

    addr: _Address
    node: _NodeOrNone | None = None
    node_name: _NodeOrNone | None = None
    slots: int | None = Field(None, ge=1, le=_MOST_SLOTS)
    reservation: _Reservation | None = None


class GivenWorkers(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    workers: list[GivenWorker] = Field(max_length=_MOST_WORKERS)


class GivenDirective(BaseModel):
    """What a recruiter says at the end of a registration."""

    model_config = ConfigDict(extra="ignore")

    directive: Directive
    reservation: _Reservation | None = None
    label: _LabelOrNone | None = None
    tenant: _Tenant | None = None


class RegisterAnswer(BaseModel):
    directive: Directive
    reservation: str | None = Field(None, description="With `reserved`: its name.")
    label: str | None = Field(None, description="With `reserved`: what the root said it is for.")
    tenant: str | None = Field(None, description="With `reserved`: whose search it is for.")


class NodeStats(BaseModel):
    free: int
    granted: int


class Stats(BaseModel):
    len_free_pool: int = Field(description="Free workers.")
    len_node_pool: int = Field(description="Nodes that have free workers.")
    reserved: int = Field(description="Workers given away, within 15 minutes, that have not registered again since.")
    registered: int = Field(description="Registrations so far.")
    asked: int = Field(description="Workers asked for so far.")
    granted: int = Field(description="Workers given so far.")
    by_node: dict[str, NodeStats]


class FreeWorker(BaseModel):
    addr: str
    node: str
    node_name: str
    slots: int
    labels: list[str]
    waiting_s: float


class FreeWorkers(BaseModel):
    workers: list[FreeWorker]


BodyT = TypeVar("BodyT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a root asks for."""

    number: int
    label: str


def parse_register(body: bytes, tenant: str = DEFAULT_TENANT) -> tuple[Offer, float]:
    """What a worker of this tenant offers, and for how many seconds."""
    asked = _parse(RegisterBody, body, "the worker was not registered")
    node = _one_of(asked.node_name, asked.node, "node_name", "node", "the worker was not registered")
    labels = frozenset([*asked.labels, asked.label] if asked.label else asked.labels)
    return Offer(asked.addr, node, labels, asked.slots, tenant), asked.timeout / 1000


def parse_recruit(body: bytes) -> Wanted:
    asked = _parse(RecruitBody, body, "no workers were recruited")
    number = _one_of(asked.number_requested, asked.N, "number_requested", "N", "no workers were recruited")
    return Wanted(number, asked.label)


def parse_given(text: bytes, at_most: int, tenant: str = DEFAULT_TENANT) -> list[Recruited]:
    """The workers that another recruiter gives this tenant. Raises `ValueError` for what is no such answer, and for one
    that gives more than were asked for: whoever is in it would be called, if only to be sent away."""
    given = _understood(GivenWorkers, text).workers
    if len(given) > at_most:
        raise ValueError(f"it gave {len(given)} workers, and was asked for {at_most}")
    return [
        Recruited(
            worker.addr, worker.node or worker.node_name or "", worker.slots or 1, worker.reservation or "", tenant
        )
        for worker in given
    ]


def parse_directive(text: bytes) -> Registered:
    """Raises `ValueError` for what is none."""
    told = _understood(GivenDirective, text)
    if told.directive is Directive.REREGISTER:
        return Registered(Directive.REREGISTER)
    return Registered(told.directive, told.reservation or "", told.label or "", told.tenant)


def registered_document(registered: Registered) -> bytes:
    if registered.directive is Directive.REREGISTER:
        return b'{"directive":"reregister"}'
    return _json(
        {
            "directive": registered.directive,
            "reservation": registered.reservation,
            "label": registered.label,
            "tenant": registered.tenant,
        }
    )


def recruited_document(workers: Iterable[Recruited]) -> bytes:
    return _json(
        {
            "workers": [
                {
                    "addr": worker.addr,
                    "node": worker.node,
                    "node_name": worker.node,
                    "slots": worker.slots,
                    "reservation": worker.reservation,
                }
                for worker in workers
            ]
        }
    )


def stats_document(figures: PoolFigures) -> bytes:
    return _json(
        {
            "len_free_pool": figures.free,
            "len_node_pool": figures.nodes,
            "reserved": figures.reserved,
            "registered": figures.registrations,
            "asked": figures.asked,
            "granted": figures.granted,
            "by_node": {
                name: {"free": node.free, "granted": node.granted} for name, node in sorted(figures.by_node.items())
            },
        }
    )


def free_document(free: Iterable[tuple[Registration, float]]) -> bytes:
    return _json(
        {
            "workers": [
                {
                    "addr": registration.offer.addr,
                    "node": registration.offer.node,
                    "node_name": registration.offer.node,
                    "slots": registration.offer.slots,
                    "labels": sorted(registration.offer.labels),
                    "waiting_s": round(waiting_s, 3),
                }
                for registration, waiting_s in free
            ]
        }
    )


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _parse(model: type[BodyT], body: bytes, what: str) -> BodyT:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = [{**problem, "loc": problem["loc"] or ("the body",)} for problem in error.errors(include_url=False)]
        raise _refusal(what, validation_problems(found)) from None


def _understood(model: type[BodyT], text: bytes) -> BodyT:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(validation_problems(error.errors(include_url=False)[:_SHOWN])) from None


ValueT = TypeVar("ValueT", int, str)


def _one_of(value: ValueT | None, other: ValueT | None, name: str, other_name: str, what: str) -> ValueT:
    if value is not None and other is not None and value != other:
        raise _refusal(what, f"{name} is {value!r} and {other_name} is {other!r}")
    found = other if value is None else value
    if found is None:
        raise _refusal(what, f"it has neither {name} nor {other_name}")
    return found


def _refusal(what: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, what, why, "correct the request and ask again")
