"""Messages as bytes and back. The one place that knows protobuf.

The form of incoming messages is checked here: an unknown message, a missing id, a number out of range or an unknown
word is a `ProtocolError`, never a default. The machines decide whether a message makes sense now.

An encoder makes plain dictionaries, and the envelope is built from them in one go: protobuf copies a message whenever
it is put into another, which took more time than everything else.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf.message import DecodeError

from quarterdeck.control import declared_codec
from quarterdeck.control.link import Envelope, Message, ProtocolError
from quarterdeck.control.proto import control_pb2 as pb
from quarterdeck.core.ids import MAX_NAME, CoordinatorId, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.kinds import work_kind
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

MAX_ENVELOPE_BYTES = 16 * 1024 * 1024
"""The largest envelope that is read. A peer that sends a larger one loses its connection."""


MAX_MESSAGES = 4_096
"""In one envelope, eight times as many as a conversation writes: each costs a hundred times what it has in bytes."""
_MAX_KINDS = 64
"""In one registration: for each a coordinator has a lane, and for each a worker has a place."""
_MAX_ADDRESS = 2_000
_MAX_WORDS = 4_000
"""How many characters of words meant for people travel; the rest of an error that quotes a whole file is cut off."""

Fields = Mapping[str, object]


def encode(envelope: Envelope) -> bytes:
    messages = [_ENCODERS[type(message)](message) for message in envelope.messages]
    return pb.Envelope(
        session_id=envelope.session_id or "", sequence=envelope.sequence, messages=messages
    ).SerializeToString()


def decode(data: bytes) -> Envelope:
    """Raises `ProtocolError` for anything that is not an envelope of messages we know."""
    try:
        envelope = pb.Envelope.FromString(data)
        if len(envelope.messages) > MAX_MESSAGES:
            raise ValueError(f"{len(envelope.messages):,} messages, and {MAX_MESSAGES:,} are the most")
        messages = tuple(map(_message_of, envelope.messages))
    except (DecodeError, ValueError) as error:
        raise ProtocolError(f"an envelope that cannot be read: {error}") from None
    return Envelope(SessionId(envelope.session_id) if envelope.session_id else None, envelope.sequence, messages)


def _message_of(message: pb.Message) -> Message:
    body = message.WhichOneof("body")
    if body is None:
        raise ValueError("a message of a kind that this version does not know")
    return _DECODERS[body](getattr(message, body))


# Parts


def _attempt_to(attempt: AttemptId) -> Fields:
    (query_id, leaf_id, work_id), number = attempt
    return {"query_id": query_id, "leaf_id": leaf_id, "work_id": work_id, "number": number}


def _attempt_of(attempt: pb.Attempt) -> AttemptId:
    query_id, leaf_id, work_id, number = attempt.query_id, attempt.leaf_id, attempt.work_id, attempt.number
    if not (query_id and leaf_id and work_id and number):
        raise ValueError("an attempt without a full name")
    return AttemptId(WorkKey(QueryId(query_id), LeafId(leaf_id), WorkId(work_id)), number)


def _status_to(status: WorkerStatus) -> Fields:
    return {"accepting_work": status.accepting_work, "draining": status.draining}


def _status_of(status: pb.WorkerStatus) -> WorkerStatus:
    return WorkerStatus(accepting_work=status.accepting_work, draining=status.draining)


def _words_to(words: str) -> str:
    """Words for people. They may quote a file's name that is no text, or go on for ever; neither may stop a session."""
    return words[:_MAX_WORDS].encode("utf-8", "backslashreplace").decode()


def _moment_of(seconds: float) -> float:
    """One that is no number would be the end of every sum it gets into."""
    if not math.isfinite(seconds):
        raise ValueError(f"a moment at {seconds} s")
    return seconds


def _span_of(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"a time of {seconds} s")
    return seconds


def _id_of(text: str, what: str) -> str:
    if not text:
        raise ValueError(f"no {what}")
    return text


# From the worker


def _register_to(message: m.Register) -> Fields:
    worker = message.worker
    register = {
        "worker_id": worker.worker_id,
        "incarnation": worker.incarnation,
        "kinds": sorted(worker.kinds),
        "slots": worker.slots,
        "queue_places": worker.queue_places,
        "node": worker.node,
        "tenant": worker.tenant,
        "memory_bytes": worker.memory_bytes,
        "address": worker.address,
        "status": _status_to(message.status),
    }
    return {"register": register}


def _register_of(message: pb.Register) -> m.Register:
    if not (message.worker_id and message.tenant and message.slots and message.HasField("status")):
        raise ValueError("a registration without a worker id, a tenant, slots or a status")
    if len(message.kinds) > _MAX_KINDS:
        raise ValueError(f"a registration with {len(message.kinds):,} kinds of work, and {_MAX_KINDS} are the most")
    for what, name in (("worker id", message.worker_id), ("tenant", message.tenant), ("node", message.node)):
        if len(name) > MAX_NAME or not name.isprintable():
            raise ValueError(f"a registration whose {what} is {name[:40]!r}, and {MAX_NAME} printable characters do")
    if len(message.address) > _MAX_ADDRESS:
        raise ValueError(f"a registration with an address of {len(message.address):,} characters")
    worker = WorkerInfo(
        WorkerId(message.worker_id),
        Incarnation(message.incarnation),
        frozenset(map(work_kind, message.kinds)),
        message.slots,
        message.queue_places,
        node=message.node,
        tenant=message.tenant,
        memory_bytes=message.memory_bytes,
        address=message.address,
    )
    return m.Register(worker, _status_of(message.status))


def _disk_to(message: m.DiskReported) -> Fields:
    use = message.use
    return {
        "disk_reported": {
            "artifact_bytes": use.artifact_bytes,
            "cache_bytes": use.cache_bytes,
            "free_bytes": use.free_bytes,
        }
    }


def _disk_of(use: pb.DiskUse) -> m.DiskReported:
    return m.DiskReported(DiskUse(use.artifact_bytes, use.cache_bytes, use.free_bytes))


def _rejected_to(message: m.WorkRejected) -> Fields:
    return {"work_rejected": {"attempt": _attempt_to(message.attempt), "reason": message.reason}}


def _rejected_of(message: pb.WorkRejected) -> m.WorkRejected:
    return m.WorkRejected(_attempt_of(message.attempt), m.RejectReason(message.reason))


def _progressed_to(message: m.WorkProgressed) -> Fields:
    return {"work_progressed": {"attempt": _attempt_to(message.attempt), "fraction": message.fraction}}


def _progressed_of(message: pb.WorkProgressed) -> m.WorkProgressed:
    if not 0 <= message.fraction <= 1:
        raise ValueError(f"a progress of {message.fraction}")
    return m.WorkProgressed(_attempt_of(message.attempt), message.fraction)


def _ready_to(message: m.WorkReady) -> Fields:
    artifact = message.artifact
    ready = {
        "attempt": _attempt_to(message.attempt),
        "artifact_url": artifact.url,
        "artifact_size_bytes": artifact.size_bytes,
        "artifact_checksum": artifact.checksum,
        "row_count": artifact.row_count,
        "min_ts": artifact.min_ts,
        "max_ts": artifact.max_ts,
        "parquet_schema_version": artifact.parquet_schema_version,
    }
    return {"work_ready": ready}


def _ready_of(message: pb.WorkReady) -> m.WorkReady:
    if not (message.artifact_url and message.artifact_checksum and message.artifact_size_bytes):
        raise ValueError("a result without an address, a size or a checksum")
    artifact = Artifact(
        message.artifact_url,
        message.artifact_size_bytes,
        message.artifact_checksum,
        message.row_count,
        message.min_ts,
        message.max_ts,
        message.parquet_schema_version,
    )
    return m.WorkReady(_attempt_of(message.attempt), artifact)


def _failed_to(message: m.WorkFailed) -> Fields:
    error = message.error
    failed = {
        "attempt": _attempt_to(message.attempt),
        "code": error.code,
        "message": _words_to(error.message),
        "retryable": error.retryable,
        "culprit": error.culprit,
    }
    return {"work_failed": failed}


def _failed_of(message: pb.WorkFailed) -> m.WorkFailed:
    code = _id_of(message.code, "code in a failure")
    error = WorkError(code, message.message, message.retryable, message.culprit)
    return m.WorkFailed(_attempt_of(message.attempt), error)


def _lost_to(message: m.ArtifactLost) -> Fields:
    return {"artifact_lost": {"attempt": _attempt_to(message.attempt), "reason": _words_to(message.reason)}}


def _lost_of(message: pb.ArtifactLost) -> m.ArtifactLost:
    return m.ArtifactLost(_attempt_of(message.attempt), message.reason)


# From the coordinator


def _registered_to(message: m.Registered) -> Fields:
    registered = {
        "session_id": message.session_id,
        "coordinator_id": message.coordinator_id,
        "liveness": {
            "interval_s": message.liveness.interval_s,
            "warn_after_missed": message.liveness.warn_after_missed,
            "lost_after_missed": message.liveness.lost_after_missed,
        },
    }
    return {"registered": registered}


def _registered_of(message: pb.Registered) -> m.Registered:
    if not (message.session_id and message.coordinator_id):
        raise ValueError("a welcome without a session or a coordinator")
    beats = message.liveness
    if not math.isfinite(beats.interval_s):
        raise ValueError(f"a beat every {beats.interval_s} s")
    liveness = LivenessPolicy(beats.interval_s, beats.warn_after_missed, beats.lost_after_missed)
    return m.Registered(SessionId(message.session_id), CoordinatorId(message.coordinator_id), liveness)


def _assign_to(message: m.AssignWork) -> Fields:
    spec = message.spec
    assign = {
        "attempt": _attempt_to(message.attempt),
        "kind": spec.kind,
        "payload": spec.payload,
        "affinity_key": spec.affinity_key,
        "tenant": spec.tenant,
        "placement": spec.placement,
        "is_light": spec.is_light,
        "leaves_nothing": spec.leaves_nothing,
    }
    return {"assign_work": assign}


def _assign_of(message: pb.AssignWork) -> m.AssignWork:
    attempt = _attempt_of(message.attempt)
    spec = WorkSpec(
        attempt.key,
        work_kind(message.kind),
        message.payload,
        message.affinity_key,
        _id_of(message.tenant, "tenant of a work"),
        _PLACEMENTS.get(message.placement) or PlacementStrategy(message.placement),
        message.is_light,
        message.leaves_nothing,
    )
    return m.AssignWork(spec, attempt.number)


# An enum takes ten times as long to find a member by its value as a dictionary; what it does not find, it explains.
_PLACEMENTS: dict[str, PlacementStrategy] = {strategy.value: strategy for strategy in PlacementStrategy}


# The tables


_ENCODERS: dict[type, Callable[[Any], Fields]] = {
    m.Register: _register_to,
    m.WorkerBeat: lambda message: {"worker_beat": _status_to(message.status)},
    m.BeatEcho: lambda message: {"beat_echo": message.sent_at},
    m.DiskReported: _disk_to,
    m.CreditChanged: lambda message: {"credit_changed": message.credit},
    m.WorkAccepted: lambda message: {"work_accepted": _attempt_to(message.attempt)},
    m.WorkRejected: _rejected_to,
    m.WorkProgressed: _progressed_to,
    m.WorkReady: _ready_to,
    m.WorkEnded: lambda message: {"work_ended": _attempt_to(message.attempt)},
    m.WorkFailed: _failed_to,
    m.WorkReturned: lambda message: {"work_returned": _attempt_to(message.attempt)},
    m.WorkCanceled: lambda message: {"work_canceled": _attempt_to(message.attempt)},
    m.ArtifactLost: _lost_to,
    m.Throttled: lambda message: {"throttled": message.for_s},
    m.Registered: _registered_to,
    m.Refused: lambda message: {"refused": _words_to(message.reason)},
    m.CoordinatorBeat: lambda message: {"coordinator_beat": message.sent_at},
    m.CreditConfirmed: lambda message: {"credit_confirmed": message.credit},
    m.AssignWork: _assign_to,
    m.CancelWork: lambda message: {"cancel_work": _attempt_to(message.attempt)},
    m.CancelQuery: lambda message: {"cancel_query": message.query_id},
    m.RecallWork: lambda message: {"recall_work": _attempt_to(message.attempt)},
    m.ArtifactAck: lambda message: {"artifact_ack": _attempt_to(message.attempt)},
    m.DrainRequest: lambda _: {"drain_request": {}},
    m.Goodbye: lambda message: {"goodbye": _words_to(message.reason)},
    **declared_codec.ENCODERS,
}

_DECODERS: dict[str, Callable[[Any], Message]] = {
    "register": _register_of,
    "worker_beat": lambda body: m.WorkerBeat(_status_of(body)),
    "beat_echo": lambda body: m.BeatEcho(_moment_of(body)),
    "disk_reported": _disk_of,
    "credit_changed": lambda body: m.CreditChanged(cast(int, body)),
    "work_accepted": lambda body: m.WorkAccepted(_attempt_of(body)),
    "work_rejected": _rejected_of,
    "work_progressed": _progressed_of,
    "work_ready": _ready_of,
    "work_ended": lambda body: m.WorkEnded(_attempt_of(body)),
    "work_failed": _failed_of,
    "work_returned": lambda body: m.WorkReturned(_attempt_of(body)),
    "work_canceled": lambda body: m.WorkCanceled(_attempt_of(body)),
    "artifact_lost": _lost_of,
    "throttled": lambda body: m.Throttled(_span_of(body)),
    "registered": _registered_of,
    "refused": lambda body: m.Refused(cast(str, body)),
    "coordinator_beat": lambda body: m.CoordinatorBeat(_moment_of(body)),
    "credit_confirmed": lambda body: m.CreditConfirmed(cast(int, body)),
    "assign_work": _assign_of,
    "cancel_work": lambda body: m.CancelWork(_attempt_of(body)),
    "cancel_query": lambda body: m.CancelQuery(QueryId(_id_of(cast(str, body), "query to cancel"))),
    "recall_work": lambda body: m.RecallWork(_attempt_of(body)),
    "artifact_ack": lambda body: m.ArtifactAck(_attempt_of(body)),
    "drain_request": lambda _: m.DrainRequest(),
    "goodbye": lambda body: m.Goodbye(cast(str, body)),
    **declared_codec.DECODERS,
}
