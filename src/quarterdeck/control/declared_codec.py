"""The wire form of what leader and workers say to each other about declared things: a part of `codec`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from quarterdeck.control.proto import control_pb2 as pb
from quarterdeck.core.ids import MAX_NAME, Fence, WorkerId
from quarterdeck.core.reconcile import messages as m
from quarterdeck.core.reconcile.model import (
    GroupId,
    HeldError,
    HeldId,
    Holding,
    Report,
    Revision,
    ThingId,
    ThingSpec,
    held_kind,
)
from quarterdeck.core.reconcile.tables import HoldingState

MAX_HOLDINGS: Final = 10_000
"""In one report, of what is there and of what is gone: more than a worker ever has."""
_MAX_KINDS: Final = 64
_MAX_WORDS: Final = 300
"""Characters of a reason that travel: a full report may have thousands of them."""

Fields = Mapping[str, object]
_STATES: Final = {state.value: state for state in HoldingState if state is not HoldingState.GONE}


def _named(text: str, what: str) -> str:
    if not 0 < len(text) <= MAX_NAME:
        raise ValueError(f"{what} with a name of {len(text):,} characters, and 1 to {MAX_NAME} do")
    return text


def _held_id_to(held_id: HeldId) -> Fields:
    return {"thing_id": held_id.thing_id, "generation": held_id.generation}


def _held_id_of(held_id: pb.HeldId) -> HeldId:
    if not held_id.generation:
        raise ValueError("a held thing without a generation")
    return HeldId(ThingId(_named(held_id.thing_id, "a thing")), Revision(held_id.generation))


def _holding_to(holding: Holding) -> Fields:
    fields: dict[str, object] = {"held_id": _held_id_to(holding.held_id), "state": holding.state}
    if holding.error is not None:
        message = holding.error.message[:_MAX_WORDS].encode("utf-8", "backslashreplace").decode()
        fields["error"] = {"code": holding.error.code, "message": message, "retryable": holding.error.retryable}
    return fields


def _holding_of(holding: pb.Holding) -> Holding:
    state = _STATES.get(holding.state)
    if state is None:
        raise ValueError(f"a thing that is {holding.state[:40]!r}")
    if (state is HoldingState.FAILED) is not holding.HasField("error"):
        raise ValueError(f"a thing that is {state}, with an error that does not go with that")
    error = None
    if holding.HasField("error"):
        code = _named(holding.error.code, "a code of an error")
        error = HeldError(code, holding.error.message[:_MAX_WORDS], holding.error.retryable)
    return Holding(_held_id_of(holding.held_id), state, error)


def _report_to(message: m.HoldingsReported) -> Fields:
    report = message.report
    fields: dict[str, object] = {
        "fence": report.fence,
        "number": report.number,
        "kinds": sorted(report.kinds),
        "takes_more": report.takes_more,
        "holdings": [_holding_to(holding) for holding in report.holdings],
        "gone": [_held_id_to(held_id) for held_id in report.gone],
    }
    if report.since is not None:
        fields["since"] = report.since
    return {"holdings_reported": fields}


def _report_of(message: pb.HoldingsReported) -> m.HoldingsReported:
    if len(message.kinds) > _MAX_KINDS:
        raise ValueError(f"a report with {len(message.kinds):,} kinds, and {_MAX_KINDS} are the most")
    if len(message.holdings) + len(message.gone) > MAX_HOLDINGS:
        raise ValueError(f"a report of more than {MAX_HOLDINGS:,} things")
    report = Report(
        Fence(message.fence),
        message.since if message.HasField("since") else None,
        message.number,
        frozenset(map(held_kind, message.kinds)),
        message.takes_more,
        tuple(map(_holding_of, message.holdings)),
        tuple(map(_held_id_of, message.gone)),
    )
    return m.HoldingsReported(report)


def _hold_to(message: m.HoldThing) -> Fields:
    spec = message.spec
    hold = {
        "fence": message.fence,
        "held_id": _held_id_to(message.held_id),
        "group_id": spec.group_id,
        "kind": spec.kind,
        "payload": spec.payload,
        "tenant": spec.tenant,
        "pinned_to": spec.pinned_to or "",
    }
    return {"hold_thing": hold}


def _hold_of(message: pb.HoldThing) -> m.HoldThing:
    held_id = _held_id_of(message.held_id)
    spec = ThingSpec(
        held_id.thing_id,
        GroupId(_named(message.group_id, "a group")),
        held_kind(message.kind),
        message.payload,
        _named(message.tenant, "a tenant"),
        WorkerId(_named(message.pinned_to, "a worker")) if message.pinned_to else None,
    )
    return m.HoldThing(Fence(message.fence), held_id, spec)


def _drop_to(message: m.DropThing) -> Fields:
    return {"drop_thing": {"fence": message.fence, "held_id": _held_id_to(message.held_id)}}


ENCODERS: Final[Mapping[type, Callable[[Any], Fields]]] = {
    m.HoldingsReported: _report_to,
    m.LeaderAnnounced: lambda message: {"leader_announced": message.fence},
    m.HoldThing: _hold_to,
    m.DropThing: _drop_to,
    m.ReportWanted: lambda _: {"report_wanted": {}},
}

DECODERS: Final[Mapping[str, Callable[[Any], m.HolderMessage | m.LeaderMessage]]] = {
    "holdings_reported": _report_of,
    "leader_announced": lambda body: m.LeaderAnnounced(Fence(body)),
    "hold_thing": _hold_of,
    "drop_thing": lambda body: m.DropThing(Fence(body.fence), _held_id_of(body.held_id)),
    "report_wanted": lambda _: m.ReportWanted(),
}
