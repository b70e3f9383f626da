"""Messages as bytes and back. The one place that knows protobuf.

What comes in is checked here as far as its form goes: an unknown message, a missing id, a number out of range or an
unknown word is a `ProtocolError`, never a default. Whether it makes sense now is the machines' affair.
"""

from collections.abc import Callable
from typing import Any, cast

from google.protobuf.message import DecodeError

from quarterdeck.control.link import Envelope, Message, ProtocolError
from quarterdeck.control.proto import control_pb2 as pb
from quarterdeck.core.ids import CoordinatorId, Fence, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    Binding,
    DiskUse,
    HeldState,
    Holding,
    LivenessPolicy,
    WorkerInfo,
    WorkError,
    WorkerStatus,
    WorkKey,
    WorkKind,
    WorkPolicy,
    WorkSpec,
)

MAX_ENVELOPE_BYTES = 16 * 1024 * 1024
"""The largest envelope that is read. A peer that sends a larger one loses its connection."""


def encode(envelope: Envelope) -> bytes:
    return pb.Envelope(
        session_id=envelope.session_id or "",
        sequence=envelope.sequence,
        messages=[_ENCODERS[type(message)](message) for message in envelope.messages],
    ).SerializeToString()


def decode(data: bytes) -> Envelope:
    """Raises `ProtocolError` for anything that is not an envelope of messages we know."""
    try:
        envelope = pb.Envelope.FromString(data)
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


def _attempt_to(attempt: AttemptId) -> pb.Attempt:
    (query_id, leaf_id, work_id), number = attempt
    return pb.Attempt(query_id=query_id, leaf_id=leaf_id, work_id=work_id, number=number)


def _attempt_of(attempt: pb.Attempt) -> AttemptId:
    query_id, leaf_id, work_id, number = attempt.query_id, attempt.leaf_id, attempt.work_id, attempt.number
    if not (query_id and leaf_id and work_id and number):
        raise ValueError("an attempt without a full name")
    return AttemptId(WorkKey(QueryId(query_id), LeafId(leaf_id), WorkId(work_id)), number)


def _status_to(status: WorkerStatus) -> pb.WorkerStatus:
    return pb.WorkerStatus(accepting_work=status.accepting_work, draining=status.draining)


def _status_of(status: pb.WorkerStatus) -> WorkerStatus:
    return WorkerStatus(accepting_work=status.accepting_work, draining=status.draining)


_policies_to: dict[WorkPolicy, pb.WorkPolicy] = {}
_policies_of: dict[bytes, WorkPolicy] = {}
_POLICIES_KEPT = 64
"""There are a handful of policies. A peer that makes up more of them is not remembered."""


def _policy_to(policy: WorkPolicy) -> pb.WorkPolicy:
    known = _policies_to.get(policy)
    if known is None:
        known = pb.WorkPolicy(
            binding=policy.binding,
            max_failures=policy.max_failures,
            pinned=policy.pinned,
            held=policy.held,
            resident=policy.resident,
            lease_s=policy.lease_s,
        )
        if len(_policies_to) < _POLICIES_KEPT:
            _policies_to[policy] = known
    return known


def _policy_of(policy: pb.WorkPolicy) -> WorkPolicy:
    data = policy.SerializeToString(deterministic=True)
    known = _policies_of.get(data)
    if known is None:
        known = WorkPolicy(
            Binding(policy.binding),
            policy.max_failures,
            pinned=policy.pinned,
            held=policy.held,
            resident=policy.resident,
            lease_s=policy.lease_s if policy.HasField("lease_s") else None,
        )
        if len(_policies_of) < _POLICIES_KEPT:
            _policies_of[data] = known
    return known


# From the worker


def _register_to(message: m.Register) -> pb.Message:
    worker = message.worker
    register = pb.Register(
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        kinds=sorted(worker.kinds),
        slots=worker.slots,
        queue_places=worker.queue_places,
        node=worker.node,
        tenant=worker.tenant,
        memory_bytes=worker.memory_bytes,
        address=worker.address,
        status=_status_to(message.status),
    )
    return pb.Message(register=register)


def _register_of(message: pb.Register) -> m.Register:
    if not (message.worker_id and message.tenant and message.slots):
        raise ValueError("a registration without a worker id, a tenant or slots")
    worker = WorkerInfo(
        WorkerId(message.worker_id),
        Incarnation(message.incarnation),
        frozenset(map(WorkKind, message.kinds)),
        message.slots,
        message.queue_places,
        node=message.node,
        tenant=message.tenant,
        memory_bytes=message.memory_bytes,
        address=message.address,
    )
    return m.Register(worker, _status_of(message.status))


def _holdings_to(message: m.Holdings) -> pb.Message:
    held = [pb.Holding(attempt=_attempt_to(each.attempt), state=each.state) for each in message.held]
    return pb.Message(holdings=pb.Holdings(held=held))


def _holdings_of(message: pb.Holdings) -> m.Holdings:
    return m.Holdings(tuple(Holding(_attempt_of(each.attempt), HeldState(each.state)) for each in message.held))


def _disk_to(message: m.DiskReported) -> pb.Message:
    use = message.use
    return pb.Message(
        disk_reported=pb.DiskUse(
            artifact_bytes=use.artifact_bytes, cache_bytes=use.cache_bytes, free_bytes=use.free_bytes
        )
    )


def _disk_of(use: pb.DiskUse) -> m.DiskReported:
    return m.DiskReported(DiskUse(use.artifact_bytes, use.cache_bytes, use.free_bytes))


def _rejected_to(message: m.WorkRejected) -> pb.Message:
    return pb.Message(work_rejected=pb.WorkRejected(attempt=_attempt_to(message.attempt), reason=message.reason))


def _rejected_of(message: pb.WorkRejected) -> m.WorkRejected:
    return m.WorkRejected(_attempt_of(message.attempt), m.RejectReason(message.reason))


def _progressed_to(message: m.WorkProgressed) -> pb.Message:
    return pb.Message(
        work_progressed=pb.WorkProgressed(attempt=_attempt_to(message.attempt), fraction=message.fraction)
    )


def _progressed_of(message: pb.WorkProgressed) -> m.WorkProgressed:
    if not 0 <= message.fraction <= 1:
        raise ValueError(f"a progress of {message.fraction}")
    return m.WorkProgressed(_attempt_of(message.attempt), message.fraction)


def _ready_to(message: m.WorkReady) -> pb.Message:
    artifact = message.artifact
    ready = pb.WorkReady(
        attempt=_attempt_to(message.attempt),
        artifact_url=artifact.url,
        artifact_size_bytes=artifact.size_bytes,
        artifact_checksum=artifact.checksum,
        row_count=artifact.row_count,
        min_ts=artifact.min_ts,
        max_ts=artifact.max_ts,
        parquet_schema_version=artifact.parquet_schema_version,
    )
    return pb.Message(work_ready=ready)


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


def _failed_to(message: m.WorkFailed) -> pb.Message:
    error = message.error
    failed = pb.WorkFailed(
        attempt=_attempt_to(message.attempt), code=error.code, message=error.message, retryable=error.retryable
    )
    return pb.Message(work_failed=failed)


def _failed_of(message: pb.WorkFailed) -> m.WorkFailed:
    return m.WorkFailed(_attempt_of(message.attempt), WorkError(message.code, message.message, message.retryable))


def _lost_to(message: m.ArtifactLost) -> pb.Message:
    return pb.Message(artifact_lost=pb.ArtifactLost(attempt=_attempt_to(message.attempt), reason=message.reason))


def _lost_of(message: pb.ArtifactLost) -> m.ArtifactLost:
    return m.ArtifactLost(_attempt_of(message.attempt), message.reason)


# From the coordinator


def _registered_to(message: m.Registered) -> pb.Message:
    liveness = pb.Liveness(
        interval_s=message.liveness.interval_s,
        warn_after_missed=message.liveness.warn_after_missed,
        lost_after_missed=message.liveness.lost_after_missed,
    )
    registered = pb.Registered(
        session_id=message.session_id, coordinator_id=message.coordinator_id, liveness=liveness, fence=message.fence
    )
    return pb.Message(registered=registered)


def _registered_of(message: pb.Registered) -> m.Registered:
    if not (message.session_id and message.coordinator_id):
        raise ValueError("a welcome without a session or a coordinator")
    beats = message.liveness
    liveness = LivenessPolicy(beats.interval_s, beats.warn_after_missed, beats.lost_after_missed)
    return m.Registered(
        SessionId(message.session_id), CoordinatorId(message.coordinator_id), liveness, Fence(message.fence)
    )


def _assign_to(message: m.AssignWork) -> pb.Message:
    spec = message.spec
    assign = pb.AssignWork(
        attempt=_attempt_to(message.attempt),
        kind=spec.kind,
        policy=_policy_to(spec.policy),
        payload=spec.payload,
        affinity_key=spec.affinity_key,
        tenant=spec.tenant,
        placement=spec.placement,
        pinned_to=spec.pinned_to,
        group=spec.group,
    )
    return pb.Message(assign_work=assign)


def _assign_of(message: pb.AssignWork) -> m.AssignWork:
    attempt = _attempt_of(message.attempt)
    spec = WorkSpec(
        attempt.key,
        WorkKind(message.kind),
        _policy_of(message.policy),
        message.payload,
        message.affinity_key,
        message.tenant,
        PlacementStrategy(message.placement),
        WorkerId(message.pinned_to) if message.HasField("pinned_to") else None,
        message.group if message.HasField("group") else None,
    )
    return m.AssignWork(spec, attempt.number)


# The tables


_ENCODERS: dict[type, Callable[[Any], pb.Message]] = {
    m.Register: _register_to,
    m.Holdings: _holdings_to,
    m.WorkerBeat: lambda message: pb.Message(worker_beat=_status_to(message.status)),
    m.BeatEcho: lambda message: pb.Message(beat_echo=message.sent_at),
    m.DiskReported: _disk_to,
    m.CreditChanged: lambda message: pb.Message(credit_changed=message.credit),
    m.WorkAccepted: lambda message: pb.Message(work_accepted=_attempt_to(message.attempt)),
    m.WorkRejected: _rejected_to,
    m.WorkProgressed: _progressed_to,
    m.WorkReady: _ready_to,
    m.WorkFailed: _failed_to,
    m.WorkReturned: lambda message: pb.Message(work_returned=_attempt_to(message.attempt)),
    m.WorkCanceled: lambda message: pb.Message(work_canceled=_attempt_to(message.attempt)),
    m.ArtifactLost: _lost_to,
    m.Deposed: lambda message: pb.Message(deposed=message.fence),
    m.Throttled: lambda message: pb.Message(throttled=message.for_s),
    m.Registered: _registered_to,
    m.Refused: lambda message: pb.Message(refused=message.reason),
    m.CoordinatorBeat: lambda message: pb.Message(coordinator_beat=message.sent_at),
    m.CreditConfirmed: lambda message: pb.Message(credit_confirmed=message.credit),
    m.AssignWork: _assign_to,
    m.CancelWork: lambda message: pb.Message(cancel_work=_attempt_to(message.attempt)),
    m.CancelQuery: lambda message: pb.Message(cancel_query=message.query_id),
    m.ArtifactAck: lambda message: pb.Message(artifact_ack=_attempt_to(message.attempt)),
    m.DrainRequest: lambda _: pb.Message(drain_request=pb.DrainRequest()),
    m.Goodbye: lambda message: pb.Message(goodbye=message.reason),
}

_DECODERS: dict[str, Callable[[Any], Message]] = {
    "register": _register_of,
    "holdings": _holdings_of,
    "worker_beat": lambda body: m.WorkerBeat(_status_of(body)),
    "beat_echo": lambda body: m.BeatEcho(cast(float, body)),
    "disk_reported": _disk_of,
    "credit_changed": lambda body: m.CreditChanged(cast(int, body)),
    "work_accepted": lambda body: m.WorkAccepted(_attempt_of(body)),
    "work_rejected": _rejected_of,
    "work_progressed": _progressed_of,
    "work_ready": _ready_of,
    "work_failed": _failed_of,
    "work_returned": lambda body: m.WorkReturned(_attempt_of(body)),
    "work_canceled": lambda body: m.WorkCanceled(_attempt_of(body)),
    "artifact_lost": _lost_of,
    "deposed": lambda body: m.Deposed(Fence(body)),
    "throttled": lambda body: m.Throttled(cast(float, body)),
    "registered": _registered_of,
    "refused": lambda body: m.Refused(cast(str, body)),
    "coordinator_beat": lambda body: m.CoordinatorBeat(cast(float, body)),
    "credit_confirmed": lambda body: m.CreditConfirmed(cast(int, body)),
    "assign_work": _assign_of,
    "cancel_work": lambda body: m.CancelWork(_attempt_of(body)),
    "cancel_query": lambda body: m.CancelQuery(QueryId(body)),
    "artifact_ack": lambda body: m.ArtifactAck(_attempt_of(body)),
    "drain_request": lambda _: m.DrainRequest(),
    "goodbye": lambda body: m.Goodbye(cast(str, body)),
}
