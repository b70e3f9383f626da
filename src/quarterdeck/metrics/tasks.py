"""What one worker gets of a query: a leaf over some segments, or the question which series there are.

A task travels as JSON with a version in it: a worker that does not know the version says so, and guesses nothing. A
leaf travels as the text of its query and its place among the leaves: a worker that plans the same text finds the same
leaf, and its id proves it.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.model import Part, SegmentRef
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.stores.objects import ObjectRef

TASK_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """When a query is evaluated; all in milliseconds. A step of 0 makes it an instant query."""

    start_ms: int
    end_ms: int
    step_ms: int
    lookback_ms: int
    subquery_step_ms: int


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """What one work may take."""

    memory_bytes: int
    max_samples: int
    max_series: int
    block_cells: int


@dataclass(frozen=True, slots=True)
class LeafTask:
    """Evaluate one leaf over these segments."""

    query: str
    times: QueryTimes
    leaf: int
    leaf_id: str
    segments: tuple[SegmentRef, ...]
    part: Part
    limits: WorkLimits
    partial_allowed: bool = False
    """Whether segments that cannot be read are left out and told of, instead of being an error."""


@dataclass(frozen=True, slots=True)
class SeriesTask:
    """Say which series of these segments match one of these sets of matchers."""

    selectors: tuple[tuple[Matcher, ...], ...]
    start_ms: int
    end_ms: int
    segments: tuple[SegmentRef, ...]
    part: Part
    max_series: int
    partial_allowed: bool = False


Task: TypeAlias = LeafTask | SeriesTask

_STRICT: Final = ConfigDict(strict=True, extra="forbid", frozen=True)
_WireSegment: TypeAlias = tuple[int, str, int, str, str, int, int, int]


class _WireLeaf(BaseModel):
    """Fields are added with a new version only: an old worker would pass over what it does not know."""

    model_config = _STRICT
    version: Literal[1]
    kind: Literal["leaf"]
    query: str
    times: tuple[int, int, int, int, int]
    leaf: int = Field(ge=0)
    leaf_id: str
    segments: list[_WireSegment]
    part: tuple[int, int]
    limits: tuple[int, int, int, int]
    partial_allowed: bool


class _WireSeries(BaseModel):
    model_config = _STRICT
    version: Literal[1]
    kind: Literal["series"]
    selectors: list[list[tuple[str, str, str]]]
    """Names and values as `_sent` makes them."""
    times: tuple[int, int]
    segments: list[_WireSegment]
    part: tuple[int, int]
    max_series: int
    partial_allowed: bool


_ADAPTER: Final[TypeAdapter[_WireLeaf | _WireSeries]] = TypeAdapter(
    Annotated[_WireLeaf | _WireSeries, Field(discriminator="kind")]
)


def encode_task(task: Task) -> bytes:
    """The form in which it travels."""
    segments = [_wire_segment(segment) for segment in task.segments]
    wire: _WireLeaf | _WireSeries
    match task:
        case LeafTask():
            times, limits = task.times, task.limits
            wire = _WireLeaf.model_construct(
                version=TASK_VERSION,
                kind="leaf",
                query=task.query,
                times=(times.start_ms, times.end_ms, times.step_ms, times.lookback_ms, times.subquery_step_ms),
                leaf=task.leaf,
                leaf_id=task.leaf_id,
                segments=segments,
                part=(task.part.residue, task.part.count),
                limits=(limits.memory_bytes, limits.max_samples, limits.max_series, limits.block_cells),
                partial_allowed=task.partial_allowed,
            )
        case SeriesTask():
            wire = _WireSeries.model_construct(
                version=TASK_VERSION,
                kind="series",
                selectors=[
                    [(_sent(one.name), one.op.value, _sent(one.value)) for one in some] for some in task.selectors
                ],
                times=(task.start_ms, task.end_ms),
                segments=segments,
                part=(task.part.residue, task.part.count),
                max_series=task.max_series,
                partial_allowed=task.partial_allowed,
            )
    return wire.model_dump_json().encode()


def decode_task(payload: bytes) -> Task:
    """Raises `QuarterdeckError` for what is no task, or one of a version that is not known here."""
    try:
        wire = _ADAPTER.validate_json(payload)
        segments = tuple(_segment(segment) for segment in wire.segments)
        if isinstance(wire, _WireLeaf):
            return LeafTask(
                wire.query,
                QueryTimes(*wire.times),
                wire.leaf,
                wire.leaf_id,
                segments,
                _part(wire.part),
                WorkLimits(*wire.limits),
                wire.partial_allowed,
            )
        selectors = tuple(
            tuple(Matcher(_received(name), MatchOp(op), _received(value)) for name, op, value in some)
            for some in wire.selectors
        )
        return SeriesTask(selectors, *wire.times, segments, _part(wire.part), wire.max_series, wire.partial_allowed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "all of it"
        raise _unreadable(f"{place}: {first['msg']}") from error
    except ValueError as error:
        raise _unreadable(str(error)) from error


def _sent(text: str) -> str:
    """The bytes of a text, each as the character of its number: a matcher may have bytes that are no text
    (`promql/syntax/quoting.py`), and JSON has no place for them."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _received(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def _part(wire: tuple[int, int]) -> Part:
    residue, count = wire
    if not 0 <= residue < count:
        raise ValueError(f"there is no part {residue} of {count}")
    return Part(residue, count)


def _wire_segment(segment: SegmentRef) -> _WireSegment:
    file = segment.object
    return (
        segment.segment_id,
        file.url,
        file.size_bytes,
        file.version,
        segment.checksum,
        segment.min_ts_ms,
        segment.max_ts_ms,
        segment.shard_count,
    )


def _segment(wire: _WireSegment) -> SegmentRef:
    segment_id, url, size_bytes, version, checksum, min_ts_ms, max_ts_ms, shard_count = wire
    return SegmentRef(segment_id, ObjectRef(url, size_bytes, version), checksum, min_ts_ms, max_ts_ms, shard_count)


def _unreadable(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.PROTOCOL,
        "the leaf was not evaluated",
        f"its task cannot be read ({why})",
        f"run coordinator and workers of one release; this one knows tasks of version {TASK_VERSION}",
    )
