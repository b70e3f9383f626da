"""Messages as bytes and back: nothing is lost on the way, and nothing that is not a message gets through."""

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.control import codec
from quarterdeck.control.codec import MAX_ENVELOPE_BYTES, decode, encode
from quarterdeck.control.conversation import MAX_PAYLOAD_BYTES
from quarterdeck.control.link import Envelope, Message, ProtocolError
from quarterdeck.control.proto import control_pb2 as pb
from quarterdeck.core.ids import CoordinatorId, Fence, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.reconcile import messages as r
from quarterdeck.core.reconcile.holder import HolderConfig
from quarterdeck.core.reconcile.model import (
    GroupId,
    HeldError,
    HeldId,
    HeldKind,
    Holding,
    Report,
    Revision,
    ThingId,
    ThingSpec,
)
from quarterdeck.core.reconcile.tables import HoldingState
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    DiskUse,
    LivenessPolicy,
    WorkerInfo,
    WorkError,
    WorkerStatus,
    WorkKey,
    WorkSpec,
)

REPEATABLE = settings(derandomize=True, deadline=None)

TEXT = st.text(max_size=12)
NAME = st.text(min_size=1, max_size=12)
PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
KIND = st.from_regex(r"[a-z][a-z0-9_-]{0,31}", fullmatch=True).map(WorkKind)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
S64 = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.integers(1, 2**32 - 1)
MOMENT_S = st.floats(allow_nan=False, allow_infinity=False)
SPAN_S = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


def _liveness(interval_s: float, warn: int, more: int) -> LivenessPolicy:
    return LivenessPolicy(interval_s, warn, warn + more)


KEY = st.builds(WorkKey, NAME.map(QueryId), NAME.map(LeafId), NAME.map(WorkId))
ATTEMPT = st.builds(AttemptId, KEY, NUMBER)
STATUS = st.sampled_from([WorkerStatus(True), WorkerStatus(False), WorkerStatus(False, draining=True)])
LIVENESS = st.builds(_liveness, SPAN_S, st.integers(1, 1000), st.integers(1, 1000))
WORKER = st.builds(
    WorkerInfo,
    PRINTABLE.map(WorkerId),
    U64.map(Incarnation),
    st.frozensets(KIND, max_size=5),
    NUMBER,
    U32,
    node=st.just("") | PRINTABLE,
    tenant=PRINTABLE,
    memory_bytes=U64,
    address=TEXT,
)
ARTIFACT = st.builds(Artifact, NAME, st.integers(1, 2**64 - 1), NAME, U64, S64, S64, U32)


@st.composite
def specs(draw: st.DrawFn) -> WorkSpec:
    return WorkSpec(
        draw(KEY),
        draw(KIND),
        draw(st.binary(max_size=30)),
        draw(TEXT),
        draw(NAME),
        draw(st.sampled_from(PlacementStrategy)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


HELD_KIND = KIND.map(HeldKind)
FENCE = U64.map(Fence)
HELD_ID = st.builds(HeldId, NAME.map(ThingId), st.integers(1, 2**64 - 1).map(Revision))
HELD_ERROR = st.builds(HeldError, NAME, TEXT, st.booleans())
HOLDING = st.builds(
    Holding, HELD_ID, st.sampled_from([HoldingState.ACQUIRING, HoldingState.HELD, HoldingState.RELEASING])
) | st.builds(Holding, HELD_ID, st.just(HoldingState.FAILED), HELD_ERROR)
REPORT = st.builds(
    Report,
    FENCE,
    st.none() | U64,
    U64,
    st.frozensets(HELD_KIND, max_size=3),
    st.booleans(),
    st.lists(HOLDING, max_size=3).map(tuple),
    st.lists(HELD_ID, max_size=3).map(tuple),
)


@st.composite
def holds(draw: st.DrawFn) -> r.HoldThing:
    held_id = draw(HELD_ID)
    pinned_to = draw(st.none() | NAME.map(WorkerId))
    kind, payload = draw(HELD_KIND), draw(st.binary(max_size=30))
    spec = ThingSpec(held_id.thing_id, draw(NAME.map(GroupId)), kind, payload, draw(NAME), pinned_to)
    return r.HoldThing(draw(FENCE), held_id, spec)


MESSAGES: dict[type, st.SearchStrategy[Any]] = {
    m.Register: st.builds(m.Register, WORKER, STATUS),
    m.WorkerBeat: st.builds(m.WorkerBeat, STATUS),
    m.BeatEcho: st.builds(m.BeatEcho, MOMENT_S),
    m.DiskReported: st.builds(m.DiskReported, st.builds(DiskUse, U64, U64, U64)),
    m.CreditChanged: st.builds(m.CreditChanged, U32),
    m.WorkAccepted: st.builds(m.WorkAccepted, ATTEMPT),
    m.WorkRejected: st.builds(m.WorkRejected, ATTEMPT, st.sampled_from(m.RejectReason)),
    m.WorkProgressed: st.builds(m.WorkProgressed, ATTEMPT, st.floats(0, 1)),
    m.WorkReady: st.builds(m.WorkReady, ATTEMPT, ARTIFACT),
    m.WorkFailed: st.builds(m.WorkFailed, ATTEMPT, st.builds(WorkError, NAME, TEXT, st.booleans(), st.booleans())),
    m.WorkReturned: st.builds(m.WorkReturned, ATTEMPT),
    m.WorkEnded: st.builds(m.WorkEnded, ATTEMPT),
    m.WorkCanceled: st.builds(m.WorkCanceled, ATTEMPT),
    m.ArtifactLost: st.builds(m.ArtifactLost, ATTEMPT, TEXT),
    m.Throttled: st.builds(m.Throttled, st.floats(min_value=0, allow_infinity=False)),
    m.Registered: st.builds(m.Registered, NAME.map(SessionId), NAME.map(CoordinatorId), LIVENESS),
    m.Refused: st.builds(m.Refused, TEXT),
    m.CoordinatorBeat: st.builds(m.CoordinatorBeat, MOMENT_S),
    m.CreditConfirmed: st.builds(m.CreditConfirmed, U32),
    m.AssignWork: st.builds(m.AssignWork, specs(), NUMBER),
    m.CancelWork: st.builds(m.CancelWork, ATTEMPT),
    m.RecallWork: st.builds(m.RecallWork, ATTEMPT),
    m.CancelQuery: st.builds(m.CancelQuery, NAME.map(QueryId)),
    m.ArtifactAck: st.builds(m.ArtifactAck, ATTEMPT),
    m.DrainRequest: st.just(m.DrainRequest()),
    m.Goodbye: st.builds(m.Goodbye, TEXT),
    r.HoldingsReported: st.builds(r.HoldingsReported, REPORT),
    r.LeaderAnnounced: st.builds(r.LeaderAnnounced, FENCE),
    r.HoldThing: holds(),
    r.DropThing: st.builds(r.DropThing, FENCE, HELD_ID),
    r.ReportWanted: st.just(r.ReportWanted()),
}

ENVELOPES = st.builds(
    Envelope,
    st.none() | NAME.map(SessionId),
    U64,
    st.lists(st.one_of(*MESSAGES.values()), max_size=4).map(tuple),
)

Fields = dict[str, object]

SOME_ATTEMPT: Fields = {"query_id": "q", "leaf_id": "l", "work_id": "w", "number": 1}


def on_the_wire(**body: object) -> bytes:
    """One message in an envelope, of fields that nobody has checked."""
    return pb.Envelope(messages=[body]).SerializeToString()


# What goes out comes in


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_arrives_as_it_was_sent(kind: type) -> None:
    @settings(REPEATABLE, max_examples=25)
    @given(MESSAGES[kind])
    def check(message: Message) -> None:
        envelope = Envelope(SessionId("s"), 1, (message,))
        assert decode(encode(envelope)) == envelope

    check()


@settings(REPEATABLE, max_examples=50)
@given(ENVELOPES)
def test_an_envelope_keeps_its_session_its_number_and_the_order_of_its_messages(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


def test_the_tables_know_every_message_there_is() -> None:
    every = set(get_args(Message))
    assert set(MESSAGES) == every
    assert set(codec._ENCODERS) == every  # pyright: ignore[reportPrivateUsage]
    bodies = {field.name for field in pb.Message.DESCRIPTOR.oneofs_by_name["body"].fields}
    assert set(codec._DECODERS) == bodies  # pyright: ignore[reportPrivateUsage]


def test_words_for_people_that_are_no_text_travel_as_far_as_they_can() -> None:
    attempt = AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId("w")), 1)
    odd = "cannot open caf\udce9.parquet"  # how Python shows the name of a file that is not UTF-8
    said = (m.WorkFailed(attempt, WorkError("internal", odd)), m.ArtifactLost(attempt, odd), m.Goodbye(odd))
    failed, lost, goodbye = decode(encode(Envelope(None, 0, (*said,)))).messages
    assert isinstance(failed, m.WorkFailed)
    assert isinstance(lost, m.ArtifactLost)
    assert isinstance(goodbye, m.Goodbye)
    assert {failed.error.message, lost.reason, goodbye.reason} == {r"cannot open caf\udce9.parquet"}


def test_words_for_people_cannot_make_an_envelope_too_large() -> None:
    attempt = AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId("w")), 1)
    failed = m.WorkFailed(attempt, WorkError("internal", "\N{PILE OF POO}" * 1_000_000))
    data = encode(Envelope(None, 0, (failed,) * 512))
    assert len(data) < MAX_ENVELOPE_BYTES
    assert len(decode(data).messages) == 512


def test_the_largest_payload_that_is_allowed_fits_into_an_envelope() -> None:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId("w"))
    spec = WorkSpec(key, WorkKind("leaf"), bytes(MAX_PAYLOAD_BYTES))
    assert len(encode(Envelope(None, 0, (m.AssignWork(spec, 1),)))) < MAX_ENVELOPE_BYTES


# What is not a message does not


@settings(REPEATABLE, max_examples=150)
@given(st.binary(max_size=200))
def test_random_bytes_are_an_envelope_or_a_protocol_error(data: bytes) -> None:
    _is_read_or_refused(data)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(encode(draw(ENVELOPES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "insert", "delete"])):
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "insert":
                data[at:at] = draw(st.binary(max_size=4))
            case _:
                del data[at : at + draw(st.integers(1, 4))]
    return bytes(data)


@settings(REPEATABLE, max_examples=150)
@given(damaged())
def test_a_damaged_envelope_is_an_envelope_or_a_protocol_error(data: bytes) -> None:
    _is_read_or_refused(data)


def _is_read_or_refused(data: bytes) -> None:
    try:
        envelope = decode(data)
    except ProtocolError:
        return
    # As bytes, because a NaN that came in is not equal to itself.
    again = encode(envelope)
    assert encode(decode(again)) == again


@settings(REPEATABLE, max_examples=20)
@given(ENVELOPES)
def test_a_truncated_envelope_is_refused_or_ends_with_a_whole_message(envelope: Envelope) -> None:
    data = encode(envelope)
    for length in range(len(data)):
        try:
            messages = decode(data[:length]).messages
        except ProtocolError:
            continue
        assert messages == envelope.messages[: len(messages)]


@pytest.mark.parametrize("body", ["beat_echo", "coordinator_beat", "throttled"])
@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_time_is_a_number(body: str, seconds: float) -> None:
    with pytest.raises(ProtocolError, match=f"{seconds} s"):
        decode(on_the_wire(**{body: seconds}))


def test_nobody_is_throttled_for_less_than_no_time() -> None:
    with pytest.raises(ProtocolError, match=r"a time of -1\.0 s"):
        decode(on_the_wire(throttled=-1.0))


def test_an_envelope_with_more_messages_than_anybody_writes_is_refused() -> None:
    beat = pb.Message(coordinator_beat=1.0)
    assert len(decode(pb.Envelope(messages=[beat] * codec.MAX_MESSAGES).SerializeToString()).messages) == 4096
    with pytest.raises(ProtocolError, match="100,000 messages, and 4,096 are the most"):
        decode(pb.Envelope(messages=[beat] * 100_000).SerializeToString())


@pytest.mark.parametrize("number", [19, 31, 33, 99, 536_870_911])
def test_a_message_that_this_version_does_not_know_is_refused(number: int) -> None:
    tag, key = bytearray(), number << 3 | 2
    while key:
        tag.append((key & 127) | (128 if key > 127 else 0))
        key >>= 7
    message = bytes(tag) + b"\x00"
    with pytest.raises(ProtocolError, match="does not know"):
        decode(b"\x1a" + bytes([len(message)]) + message)


def test_an_empty_message_is_refused() -> None:
    with pytest.raises(ProtocolError, match="does not know"):
        decode(b"\x1a\x00")


def test_text_that_is_not_utf_8_is_refused() -> None:
    data = on_the_wire(goodbye="latin")
    with pytest.raises(ProtocolError):
        decode(data.replace(b"latin", b"lat\xedn"))


BODIES_WITH_AN_ATTEMPT: dict[str, Callable[[Fields], Fields]] = {
    "work_accepted": lambda attempt: attempt,
    "work_returned": lambda attempt: attempt,
    "work_canceled": lambda attempt: attempt,
    "cancel_work": lambda attempt: attempt,
    "artifact_ack": lambda attempt: attempt,
    "work_rejected": lambda attempt: {"attempt": attempt, "reason": "draining"},
    "work_progressed": lambda attempt: {"attempt": attempt, "fraction": 0.5},
    "work_ready": lambda attempt: {
        "attempt": attempt,
        "artifact_url": "http://w",
        "artifact_size_bytes": 1,
        "artifact_checksum": "sum",
    },
    "work_failed": lambda attempt: {"attempt": attempt, "code": "internal", "message": "", "retryable": True},
    "artifact_lost": lambda attempt: {"attempt": attempt, "reason": ""},
    "assign_work": lambda attempt: {
        "attempt": attempt,
        "kind": "leaf",
        "tenant": "default",
        "placement": "rendezvous",
    },
}


@pytest.mark.parametrize("missing", [None, *SOME_ATTEMPT])
@pytest.mark.parametrize("body", BODIES_WITH_AN_ATTEMPT)
def test_an_attempt_must_have_its_full_name(body: str, missing: str | None) -> None:
    make = BODIES_WITH_AN_ATTEMPT[body]
    assert len(decode(on_the_wire(**{body: make(SOME_ATTEMPT)})).messages) == 1
    attempt = {name: value for name, value in SOME_ATTEMPT.items() if name != missing} if missing else {}
    with pytest.raises(ProtocolError, match="an attempt without a full name"):
        decode(on_the_wire(**{body: make(attempt)}))


REGISTER: Fields = {
    "worker_id": "w",
    "kinds": ["leaf"],
    "slots": 1,
    "tenant": "default",
    "status": {"accepting_work": True},
}
BEATS: Fields = {"interval_s": 1.0, "warn_after_missed": 2, "lost_after_missed": 3}
REGISTERED: Fields = {"session_id": "s", "coordinator_id": "c", "liveness": BEATS}
ASSIGN = BODIES_WITH_AN_ATTEMPT["assign_work"](SOME_ATTEMPT)
READY = BODIES_WITH_AN_ATTEMPT["work_ready"](SOME_ATTEMPT)

WHOLE = {"register": REGISTER, "registered": REGISTERED, "assign_work": ASSIGN, "work_ready": READY}

WRONG: dict[str, tuple[str, object]] = {
    "register: no worker": ("register", REGISTER | {"worker_id": ""}),
    "register: a worker with a name without end": ("register", REGISTER | {"worker_id": "w" * 251}),
    "register: a worker whose name no database takes": ("register", REGISTER | {"worker_id": "w\0"}),
    "register: no tenant": ("register", REGISTER | {"tenant": ""}),
    "register: a tenant with a name without end": ("register", REGISTER | {"tenant": "t" * 251}),
    "register: a tenant that writes lines into logs": ("register", REGISTER | {"tenant": "t\nlevel=error"}),
    "register: a node that moves a terminal's cursor": ("register", REGISTER | {"node": "\x1b[2J"}),
    "register: an address without end": ("register", REGISTER | {"address": "a" * 2001}),
    "register: no slots": ("register", REGISTER | {"slots": 0}),
    "register: no status": ("register", REGISTER | {"status": None}),
    "register: a kind that is no name": ("register", REGISTER | {"kinds": ["leaf", "Leaf"]}),
    "register: a kind without end": ("register", REGISTER | {"kinds": ["l" * 33]}),
    "register: too many kinds": ("register", REGISTER | {"kinds": [f"kind{n}" for n in range(65)]}),
    "register: accepting and draining": (
        "register",
        REGISTER | {"status": {"accepting_work": True, "draining": True}},
    ),
    "beat: accepting and draining": ("worker_beat", {"accepting_work": True, "draining": True}),
    "rejected: unknown reason": ("work_rejected", {"attempt": SOME_ATTEMPT, "reason": "lazy"}),
    "rejected: no reason": ("work_rejected", {"attempt": SOME_ATTEMPT}),
    "progress: above one": ("work_progressed", {"attempt": SOME_ATTEMPT, "fraction": 2.0}),
    "progress: below zero": ("work_progressed", {"attempt": SOME_ATTEMPT, "fraction": -0.1}),
    "progress: not a number": ("work_progressed", {"attempt": SOME_ATTEMPT, "fraction": float("nan")}),
    "failed: no code": ("work_failed", {"attempt": SOME_ATTEMPT, "message": "why"}),
    "ready: no address": ("work_ready", READY | {"artifact_url": ""}),
    "ready: no size": ("work_ready", READY | {"artifact_size_bytes": 0}),
    "ready: no checksum": ("work_ready", READY | {"artifact_checksum": ""}),
    "registered: no session": ("registered", REGISTERED | {"session_id": ""}),
    "registered: no coordinator": ("registered", REGISTERED | {"coordinator_id": ""}),
    "registered: no liveness": ("registered", REGISTERED | {"liveness": None}),
    "registered: interval 0": ("registered", REGISTERED | {"liveness": BEATS | {"interval_s": 0.0}}),
    "registered: interval below 0": ("registered", REGISTERED | {"liveness": BEATS | {"interval_s": -1.0}}),
    "registered: interval not a number": (
        "registered",
        REGISTERED | {"liveness": BEATS | {"interval_s": float("nan")}},
    ),
    "registered: interval for ever": ("registered", REGISTERED | {"liveness": BEATS | {"interval_s": float("inf")}}),
    "registered: lost before warned": ("registered", REGISTERED | {"liveness": BEATS | {"lost_after_missed": 2}}),
    "assign: a kind that is no name": ("assign_work", ASSIGN | {"kind": "two words"}),
    "assign: no kind": ("assign_work", ASSIGN | {"kind": ""}),
    "assign: unknown placement": ("assign_work", ASSIGN | {"placement": "anywhere"}),
    "assign: no placement": ("assign_work", ASSIGN | {"placement": ""}),
    "assign: no tenant": ("assign_work", ASSIGN | {"tenant": ""}),
    "cancel query: no query": ("cancel_query", ""),
}


@pytest.mark.parametrize("body", WHOLE)
def test_the_whole_messages_below_are_fine_before_something_is_made_wrong(body: str) -> None:
    assert len(decode(on_the_wire(**{body: WHOLE[body]})).messages) == 1


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused(what: str) -> None:
    body, fields = WRONG[what]
    with pytest.raises(ProtocolError, match=r"an envelope that cannot be read: ."):
        decode(on_the_wire(**{body: fields}))


# Declared things

_HELD: Fields = {"thing_id": "t", "generation": 1}
_HOLD: Fields = {"fence": 1, "held_id": _HELD, "group_id": "g", "kind": "epoch", "tenant": "t"}


@pytest.mark.parametrize(
    "body",
    [
        {"drop_thing": {"fence": 1, "held_id": {"generation": 1}}},
        {"drop_thing": {"fence": 1, "held_id": {"thing_id": "t"}}},
        {"drop_thing": {"fence": 1, "held_id": {"thing_id": "t" * 251, "generation": 1}}},
        {"hold_thing": {"fence": 1, "held_id": _HELD, "group_id": "g", "kind": "no kind", "tenant": "t"}},
        {"hold_thing": {"fence": 1, "held_id": _HELD, "group_id": "", "kind": "epoch", "tenant": "t"}},
        {"hold_thing": {"fence": 1, "held_id": _HELD, "group_id": "g", "kind": "epoch"}},
        {"holdings_reported": {"kinds": [f"k{i}" for i in range(65)]}},
        {"holdings_reported": {"gone": [_HELD] * 10_001}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "gone"}]}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "lost"}]}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "failed"}]}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "failed", "error": {"message": "m"}}]}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "failed", "error": {"code": "c" * 251}}]}},
        {"holdings_reported": {"holdings": [{"held_id": _HELD, "state": "held", "error": {"code": "c"}}]}},
        {"hold_thing": _HOLD | {"pinned_to": "w" * 251}},
    ],
)
def test_what_cannot_be_said_of_declared_things_is_refused(body: Fields) -> None:
    with pytest.raises(ProtocolError):
        decode(on_the_wire(**body))


def test_the_largest_full_report_fits_into_an_envelope() -> None:
    held_id = HeldId(ThingId("ä" * 250), Revision(2**63))
    failed = Holding(held_id, HoldingState.FAILED, HeldError("unavailable", "€" * 10_000))
    report = r.HoldingsReported(Report(Fence(1), None, 1, holdings=(failed,) * 2 * HolderConfig(frozenset()).max_held))
    data = encode(Envelope(SessionId("s"), 1, (report,)))
    assert len(data) < MAX_ENVELOPE_BYTES
    (received,) = decode(data).messages
    assert isinstance(received, r.HoldingsReported)
    assert received.report.holdings[0].error == HeldError("unavailable", "€" * 300)
