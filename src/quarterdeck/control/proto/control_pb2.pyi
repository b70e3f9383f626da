from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("session_id", "sequence", "messages")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    sequence: int
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, session_id: _Optional[str] = ..., sequence: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("register", "worker_beat", "beat_echo", "disk_reported", "credit_changed", "work_accepted", "work_rejected", "work_progressed", "work_ready", "work_failed", "work_returned", "work_canceled", "artifact_lost", "throttled", "work_ended", "holdings_reported", "registered", "refused", "coordinator_beat", "credit_confirmed", "assign_work", "cancel_work", "cancel_query", "artifact_ack", "drain_request", "recall_work", "goodbye", "leader_announced", "hold_thing", "drop_thing", "report_wanted")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    WORKER_BEAT_FIELD_NUMBER: _ClassVar[int]
    BEAT_ECHO_FIELD_NUMBER: _ClassVar[int]
    DISK_REPORTED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_CHANGED_FIELD_NUMBER: _ClassVar[int]
    WORK_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    WORK_REJECTED_FIELD_NUMBER: _ClassVar[int]
    WORK_PROGRESSED_FIELD_NUMBER: _ClassVar[int]
    WORK_READY_FIELD_NUMBER: _ClassVar[int]
    WORK_FAILED_FIELD_NUMBER: _ClassVar[int]
    WORK_RETURNED_FIELD_NUMBER: _ClassVar[int]
    WORK_CANCELED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_LOST_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    WORK_ENDED_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_REPORTED_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_BEAT_FIELD_NUMBER: _ClassVar[int]
    CREDIT_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_WORK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_WORK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_QUERY_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ACK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    RECALL_WORK_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    LEADER_ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    HOLD_THING_FIELD_NUMBER: _ClassVar[int]
    DROP_THING_FIELD_NUMBER: _ClassVar[int]
    REPORT_WANTED_FIELD_NUMBER: _ClassVar[int]
    register: Register
    worker_beat: WorkerStatus
    beat_echo: float
    disk_reported: DiskUse
    credit_changed: int
    work_accepted: Attempt
    work_rejected: WorkRejected
    work_progressed: WorkProgressed
    work_ready: WorkReady
    work_failed: WorkFailed
    work_returned: Attempt
    work_canceled: Attempt
    artifact_lost: ArtifactLost
    throttled: float
    work_ended: Attempt
    holdings_reported: HoldingsReported
    registered: Registered
    refused: str
    coordinator_beat: float
    credit_confirmed: int
    assign_work: AssignWork
    cancel_work: Attempt
    cancel_query: str
    artifact_ack: Attempt
    drain_request: DrainRequest
    recall_work: Attempt
    goodbye: str
    leader_announced: int
    hold_thing: HoldThing
    drop_thing: DropThing
    report_wanted: ReportWanted
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., worker_beat: _Optional[_Union[WorkerStatus, _Mapping]] = ..., beat_echo: _Optional[float] = ..., disk_reported: _Optional[_Union[DiskUse, _Mapping]] = ..., credit_changed: _Optional[int] = ..., work_accepted: _Optional[_Union[Attempt, _Mapping]] = ..., work_rejected: _Optional[_Union[WorkRejected, _Mapping]] = ..., work_progressed: _Optional[_Union[WorkProgressed, _Mapping]] = ..., work_ready: _Optional[_Union[WorkReady, _Mapping]] = ..., work_failed: _Optional[_Union[WorkFailed, _Mapping]] = ..., work_returned: _Optional[_Union[Attempt, _Mapping]] = ..., work_canceled: _Optional[_Union[Attempt, _Mapping]] = ..., artifact_lost: _Optional[_Union[ArtifactLost, _Mapping]] = ..., throttled: _Optional[float] = ..., work_ended: _Optional[_Union[Attempt, _Mapping]] = ..., holdings_reported: _Optional[_Union[HoldingsReported, _Mapping]] = ..., registered: _Optional[_Union[Registered, _Mapping]] = ..., refused: _Optional[str] = ..., coordinator_beat: _Optional[float] = ..., credit_confirmed: _Optional[int] = ..., assign_work: _Optional[_Union[AssignWork, _Mapping]] = ..., cancel_work: _Optional[_Union[Attempt, _Mapping]] = ..., cancel_query: _Optional[str] = ..., artifact_ack: _Optional[_Union[Attempt, _Mapping]] = ..., drain_request: _Optional[_Union[DrainRequest, _Mapping]] = ..., recall_work: _Optional[_Union[Attempt, _Mapping]] = ..., goodbye: _Optional[str] = ..., leader_announced: _Optional[int] = ..., hold_thing: _Optional[_Union[HoldThing, _Mapping]] = ..., drop_thing: _Optional[_Union[DropThing, _Mapping]] = ..., report_wanted: _Optional[_Union[ReportWanted, _Mapping]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("query_id", "leaf_id", "work_id", "number")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    LEAF_ID_FIELD_NUMBER: _ClassVar[int]
    WORK_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    query_id: str
    leaf_id: str
    work_id: str
    number: int
    def __init__(self, query_id: _Optional[str] = ..., leaf_id: _Optional[str] = ..., work_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("accepting_work", "draining")
    ACCEPTING_WORK_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    accepting_work: bool
    draining: bool
    def __init__(self, accepting_work: _Optional[bool] = ..., draining: _Optional[bool] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("worker_id", "incarnation", "kinds", "slots", "queue_places", "node", "tenant", "memory_bytes", "address", "status")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PLACES_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    incarnation: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    queue_places: int
    node: str
    tenant: str
    memory_bytes: int
    address: str
    status: WorkerStatus
    def __init__(self, worker_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., queue_places: _Optional[int] = ..., node: _Optional[str] = ..., tenant: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., address: _Optional[str] = ..., status: _Optional[_Union[WorkerStatus, _Mapping]] = ...) -> None: ...

class DiskUse(_message.Message):
    __slots__ = ("artifact_bytes", "cache_bytes", "free_bytes")
    ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    artifact_bytes: int
    cache_bytes: int
    free_bytes: int
    def __init__(self, artifact_bytes: _Optional[int] = ..., cache_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ...) -> None: ...

class WorkRejected(_message.Message):
    __slots__ = ("attempt", "reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    reason: str
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class WorkProgressed(_message.Message):
    __slots__ = ("attempt", "fraction")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    fraction: float
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., fraction: _Optional[float] = ...) -> None: ...

class WorkReady(_message.Message):
    __slots__ = ("attempt", "artifact_url", "artifact_size_bytes", "artifact_checksum", "row_count", "min_ts", "max_ts", "parquet_schema_version")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_URL_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_TS_FIELD_NUMBER: _ClassVar[int]
    MAX_TS_FIELD_NUMBER: _ClassVar[int]
    PARQUET_SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    artifact_url: str
    artifact_size_bytes: int
    artifact_checksum: str
    row_count: int
    min_ts: int
    max_ts: int
    parquet_schema_version: int
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., artifact_url: _Optional[str] = ..., artifact_size_bytes: _Optional[int] = ..., artifact_checksum: _Optional[str] = ..., row_count: _Optional[int] = ..., min_ts: _Optional[int] = ..., max_ts: _Optional[int] = ..., parquet_schema_version: _Optional[int] = ...) -> None: ...

class WorkFailed(_message.Message):
    __slots__ = ("attempt", "code", "message", "retryable", "culprit")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    code: str
    message: str
    retryable: bool
    culprit: bool
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., culprit: _Optional[bool] = ...) -> None: ...

class ArtifactLost(_message.Message):
    __slots__ = ("attempt", "reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    reason: str
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Liveness(_message.Message):
    __slots__ = ("interval_s", "warn_after_missed", "lost_after_missed")
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    WARN_AFTER_MISSED_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_MISSED_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    warn_after_missed: int
    lost_after_missed: int
    def __init__(self, interval_s: _Optional[float] = ..., warn_after_missed: _Optional[int] = ..., lost_after_missed: _Optional[int] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("session_id", "coordinator_id", "liveness")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_ID_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    coordinator_id: str
    liveness: Liveness
    def __init__(self, session_id: _Optional[str] = ..., coordinator_id: _Optional[str] = ..., liveness: _Optional[_Union[Liveness, _Mapping]] = ...) -> None: ...

class AssignWork(_message.Message):
    __slots__ = ("attempt", "kind", "payload", "affinity_key", "tenant", "placement", "is_light", "leaves_nothing")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    IS_LIGHT_FIELD_NUMBER: _ClassVar[int]
    LEAVES_NOTHING_FIELD_NUMBER: _ClassVar[int]
    attempt: Attempt
    kind: str
    payload: bytes
    affinity_key: str
    tenant: str
    placement: str
    is_light: bool
    leaves_nothing: bool
    def __init__(self, attempt: _Optional[_Union[Attempt, _Mapping]] = ..., kind: _Optional[str] = ..., payload: _Optional[bytes] = ..., affinity_key: _Optional[str] = ..., tenant: _Optional[str] = ..., placement: _Optional[str] = ..., is_light: _Optional[bool] = ..., leaves_nothing: _Optional[bool] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HeldId(_message.Message):
    __slots__ = ("thing_id", "generation")
    THING_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    thing_id: str
    generation: int
    def __init__(self, thing_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class HeldError(_message.Message):
    __slots__ = ("code", "message", "retryable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retryable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ...) -> None: ...

class Holding(_message.Message):
    __slots__ = ("held_id", "state", "error")
    HELD_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    held_id: HeldId
    state: str
    error: HeldError
    def __init__(self, held_id: _Optional[_Union[HeldId, _Mapping]] = ..., state: _Optional[str] = ..., error: _Optional[_Union[HeldError, _Mapping]] = ...) -> None: ...

class HoldingsReported(_message.Message):
    __slots__ = ("fence", "since", "number", "kinds", "takes_more", "holdings", "gone")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    TAKES_MORE_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    fence: int
    since: int
    number: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    takes_more: bool
    holdings: _containers.RepeatedCompositeFieldContainer[Holding]
    gone: _containers.RepeatedCompositeFieldContainer[HeldId]
    def __init__(self, fence: _Optional[int] = ..., since: _Optional[int] = ..., number: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ..., takes_more: _Optional[bool] = ..., holdings: _Optional[_Iterable[_Union[Holding, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[HeldId, _Mapping]]] = ...) -> None: ...

class HoldThing(_message.Message):
    __slots__ = ("fence", "held_id", "group_id", "kind", "payload", "tenant", "pinned_to")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HELD_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PINNED_TO_FIELD_NUMBER: _ClassVar[int]
    fence: int
    held_id: HeldId
    group_id: str
    kind: str
    payload: bytes
    tenant: str
    pinned_to: str
    def __init__(self, fence: _Optional[int] = ..., held_id: _Optional[_Union[HeldId, _Mapping]] = ..., group_id: _Optional[str] = ..., kind: _Optional[str] = ..., payload: _Optional[bytes] = ..., tenant: _Optional[str] = ..., pinned_to: _Optional[str] = ...) -> None: ...

class DropThing(_message.Message):
    __slots__ = ("fence", "held_id")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HELD_ID_FIELD_NUMBER: _ClassVar[int]
    fence: int
    held_id: HeldId
    def __init__(self, fence: _Optional[int] = ..., held_id: _Optional[_Union[HeldId, _Mapping]] = ...) -> None: ...

class ReportWanted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
