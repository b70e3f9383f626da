"""What comes over the wire, damaged on purpose, and the promises of everything that reads it.

For each decoder there are a few inputs that are well made, and a function that tries one input: what comes out is what
went in, or the decoder's own error; anything else is raised. Tests and the fuzzers share it.

`python -m checks.hostile TARGET FIRST COUNT FILE` tries so many damaged inputs in a process of its own, each written to
FILE before it is tried: a decoder in C that ends the process leaves the input that did it.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.control.codec import decode, encode
from quarterdeck.control.link import Envelope, ProtocolError
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.reconcile.messages import HoldingsReported, HoldThing, LeaderAnnounced
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
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    DiskUse,
    WorkerInfo,
    WorkError,
    WorkerStatus,
    WorkKey,
    WorkSpec,
)
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.format import Hasher, Stamp
from quarterdeck.crew.artifacts.parquet import Memory, ParquetFile, read_footer
from quarterdeck.metrics.model import Part, SegmentRef
from quarterdeck.metrics.promql.blocks import Axis, Grid, VectorBlock
from quarterdeck.metrics.promql.flow.leaf import LeafBlock
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.tasks import LeafTask, QueryTimes, SeriesTask, WorkLimits
from quarterdeck.metrics.tasks import decode_task as decode_metrics_task
from quarterdeck.metrics.tasks import encode_task as encode_metrics_task
from quarterdeck.metrics.transfer.leaf_blocks import LeafReader, LeafWriter
from quarterdeck.metrics.transfer.series_list import read_series, write_series
from quarterdeck.recruiter.model import Recruited
from quarterdeck.recruiter.wire import (
    parse_directive,
    parse_given,
    parse_recruit,
    parse_register,
    recruited_document,
)
from quarterdeck.scan.model import ScanTask
from quarterdeck.scan.model import decode_task as decode_scan_task
from quarterdeck.scan.model import encode_task as encode_scan_task
from quarterdeck.search import frames
from quarterdeck.search.chunk_request import decode_chunk, encode_chunk
from quarterdeck.search.engine.parts import part_schema
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Piece, SearchSpec, Sent
from quarterdeck.search.row_payloads import DIGEST_BYTES, RowPayloads, RowsError, checked_rows
from quarterdeck.stores.objects import ObjectRef

_pa: Any = _pyarrow

EDIT_BYTES: Final = 5
"""What `damaged` needs for each edit."""
_MOST_BYTES: Final = 2**29
"""Of memory that one artifact may take, twice of what one of its pages may."""
_ODD: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x22, 0x5B)
_INTERESTING: Final = (-1, 0, 1, 2**31 - 1, 2**31, 2**62, -(2**63), 2**16)


class BrokenPromiseError(Exception):
    """A decoder took what it should not have taken, or for something else."""


@dataclass(frozen=True, slots=True)
class Target:
    samples: Callable[[], Sequence[bytes]]
    """Well made."""
    attempt: Callable[[bytes], None]
    """Tries one input."""

    def input_of(self, data: bytes) -> bytes:
        """What somebody's random bytes stand for: themselves, or edits of one of the samples."""
        if not data or data[0] >= 0xE0:
            return data[1:]
        samples = self.samples()
        return damaged(samples[data[0] % len(samples)], data[1:])


def damaged(data: bytes, edits: bytes) -> bytes:
    """The same bytes after some edits: each says where, what kind, and with what."""
    edited = bytearray(data)
    for at in range(0, len(edits) - EDIT_BYTES + 1, EDIT_BYTES):
        place = int.from_bytes(edits[at : at + 3], "little") % (len(edited) + 1)
        kind, value = edits[at + 3], edits[at + 4]
        _edit(edited, place, kind, value)
    return bytes(edited)


def _edit(data: bytearray, place: int, kind: int, value: int) -> None:
    match kind % 8:
        case 0 | 1 if place < len(data):
            data[place] ^= 1 << value % 8
        case 2 if place < len(data):
            data[place] = value
        case 3 if place < len(data):
            data[place] = _ODD[value % len(_ODD)]
        case 4:
            width = 8 if value & 1 else 4
            start = place - place % width
            number = _INTERESTING[value // 2 % len(_INTERESTING)] & (1 << 8 * width) - 1
            data[start : start + width] = number.to_bytes(width, "little")
        case 5:
            del data[place : place + 1 + value % 16]
        case 6:
            data[place:place] = bytes([_ODD[value % len(_ODD)]]) * (1 + value // 16)
        case _:
            data[place:place] = data[place // 2 : place // 2 + value]


# The control stream

_ATTEMPT: Final = AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId("w")), 3)


@cache
def control_samples() -> Sequence[bytes]:
    worker = WorkerInfo(
        WorkerId("w"),
        Incarnation(7),
        frozenset((WorkKind("leaf"), WorkKind("scan"))),
        4,
        8,
        node="n",
        tenant="default",
        address="http://w:1",
    )
    spec = WorkSpec(_ATTEMPT.key, WorkKind("leaf"), b"payload", "key", "default", leaves_nothing=True)
    artifact = Artifact("http://w:1/artifacts/a.parquet", 100, "xxh3_128:00", 5, -1, 9, 1)
    held_id = HeldId(ThingId("t"), Revision(7))
    failed = Holding(held_id, HoldingState.FAILED, HeldError("unavailable", "why"))
    envelopes = (
        Envelope(None, 0, (m.Register(worker, WorkerStatus(True)),)),
        Envelope(SessionId("s"), 1, (m.AssignWork(spec, 3), m.CancelWork(_ATTEMPT), m.CoordinatorBeat(1.5))),
        Envelope(
            SessionId("s"), 2, (m.WorkReady(_ATTEMPT, artifact), m.WorkProgressed(_ATTEMPT, 0.5), m.WorkEnded(_ATTEMPT))
        ),
        Envelope(
            SessionId("s"),
            3,
            (
                m.WorkFailed(_ATTEMPT, WorkError("internal", "why", retryable=True)),
                m.DiskReported(DiskUse(1, 2, 3)),
                m.BeatEcho(2.5),
                m.Throttled(1.0),
                HoldingsReported(Report(Fence(1), 1, 2, holdings=(failed,), gone=(held_id,))),
                LeaderAnnounced(Fence(2)),
                HoldThing(Fence(2), held_id, ThingSpec(held_id.thing_id, GroupId("g"), held_kind("epoch"), b"plan")),
            ),
        ),
    )
    return tuple(map(encode, envelopes))


def try_control(data: bytes) -> None:
    try:
        envelope = decode(data)
    except ProtocolError:
        return
    if decode(encode(envelope)) != envelope:
        raise BrokenPromiseError(f"{envelope} is another after it was sent")


# Frames of search


@cache
def frames_samples() -> Sequence[bytes]:
    rows = frames.RowFrames()
    data = b"".join(rows.of([_records()]))
    report = ChunkReport(10, 2, (FileProblem("/a", "no", 3), FileProblem("/b", "why")), frozenset({"f"}), 1)
    error = QuarterdeckError(next(iter(ErrorCode)), "what", "why", "next")
    return (
        frames.encode_progress(5) + data + frames.encode_report(report, rows.sent),
        frames.encode_report(report, Sent(1, 2, 3, "0" * 32)),
        frames.encode_progress(0) + frames.encode_error(error),
    )


def try_frames(data: bytes) -> None:
    whole, in_pieces = _frames(data, len(data) or 1), _frames(data, 3)
    if whole != in_pieces:
        raise BrokenPromiseError("frames are others when they come in pieces")
    for frame in whole:
        with suppress(frames.FrameError):
            match frame.kind:
                case frames.FrameKind.PROGRESS:
                    if frames.decode_progress(frame.payload) < 0:
                        raise BrokenPromiseError("progress of less than nothing")
                case frames.FrameKind.REPORT:
                    told = frames.decode_report(frame.payload)
                    (again,) = frames.FrameDecoder().feed(frames.encode_report(*told))
                    if frames.decode_report(again.payload) != told:
                        raise BrokenPromiseError(f"{told} is another after it was sent")
                case frames.FrameKind.ERROR:
                    str(frames.decode_error(frame.payload)).encode()
                case frames.FrameKind.ROWS:
                    _try_sealed(frame.payload, _records().schema)


def _frames(data: bytes, piece_bytes: int) -> list[frames.Frame]:
    decoder, found = frames.FrameDecoder(), list[frames.Frame]()
    with suppress(frames.FrameError):
        for at in range(0, len(data), piece_bytes):
            found += decoder.feed(data[at : at + piece_bytes])
    return found


# Rows

_QUERIES: Final = ("*", "* | count(), avg(ms), min(a) by b", "* | uniq", "* | fields")


def _schema(query: str) -> Any:
    return part_schema(plan_search(SearchSpec(query, 0)))


def _records() -> Any:
    columns = [[1, None, 3], [1, 2, 3], ["a line", "another", "é" * 100]]
    return _pa.record_batch(columns, _schema("*"))


@cache
def rows_samples() -> Sequence[bytes]:
    """Streams without their checksums, which a worker that lies would make as we do."""
    samples: list[bytes] = []
    for query in _QUERIES:
        schema = _schema(query)
        rows = [{name: _value(schema.field(name).type, at) for name in schema.names} for at in range(20)]
        batch = _pa.RecordBatch.from_pylist(rows, schema)
        (payload,) = RowPayloads().of([batch, batch.slice(3, 5)])
        samples.append(payload[DIGEST_BYTES:])
        sink = _pa.BufferOutputStream()
        with _pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(batch)
        samples.append(sink.getvalue().to_pybytes())
    return samples


def _value(kind: Any, at: int) -> object:
    if at % 7 == 3:
        return None
    return f"text {at}" if _pa.types.is_string(kind) else at


def try_rows(data: bytes) -> None:
    for query in _QUERIES:
        _try_sealed(Hasher(data).digest() + data, _schema(query))
    _try_sealed(data, _schema("*"))


def _try_sealed(payload: bytes, schema: Any) -> None:
    """What is taken can be used: nobody looks at it again."""
    try:
        batches = checked_rows(payload, schema)
    except RowsError:
        return
    for batch in batches:
        if not batch.schema.equals(schema):
            raise BrokenPromiseError("rows with other columns were taken")
        batch.to_pylist()
        _pa.concat_batches([batch, batch])


# Artifacts


@cache
def artifact_samples() -> Sequence[bytes]:
    samples = [make(tiny=tiny) for make in (_series_file, _leaf_file) for tiny in (True, False)]
    for tiny in (True, False):
        rows = [{"ts": at, "rate": None if at % 3 else at / 7, "kind": "ab"[at % 2]} for at in range(60)]
        lists = [{"names": ["x", "y"][: at % 3], "deep": {"flag": bool(at % 2)}, "raw": b"\xff"} for at in range(60)]
        table = _pa.Table.from_pylist([{**one, **other} for one, other in zip(rows, lists, strict=True)])
        samples.append(_file(table, tiny=tiny))
    return samples


class _Kept:
    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.schema: Any = None

    def open(self, schema: Any, ts_column: str | None) -> None:  # noqa: ARG002 - a sink's signature
        self.schema = schema

    def write(self, batch: Any) -> None:
        self.batches.append(batch)


def _series_file(*, tiny: bool) -> bytes:
    kept = _Kept()
    series = [(("__name__", "up"), ("job", f"j{at}")) for at in range(50)]
    write_series(kept, series, {"unreadable": ""})
    return _file(_pa.Table.from_batches(kept.batches, kept.schema), tiny=tiny)


def _leaf_file(*, tiny: bool) -> bytes:
    kept = _Kept()
    writer = LeafWriter(_leaves()[0], kept)
    axis = Axis.of([(("__name__", "up"), ("job", f"j{at}")) for at in range(29)])
    shape = (len(axis), 5)
    for start_ms in (0, 5000):
        block = VectorBlock(axis, np.arange(145.0).reshape(shape), np.arange(145).reshape(shape) % 7 > 0)
        writer.write(LeafBlock(Grid(start_ms, 1000, 5), block))
    writer.finish(Notes(), {"samples": 5})
    return _file(_pa.Table.from_batches(kept.batches, kept.schema), tiny=tiny)


def _file(table: Any, *, tiny: bool) -> bytes:
    memory = Memory()
    file = ParquetFile(memory, table.schema, table, tiny=tiny)
    file.write(table, rows_per_group=25)
    file.finish(Stamp(table.num_rows, 0, 0).encoded())
    return memory.taken()


def try_artifact(data: bytes) -> None:
    """As somebody would announce it who made it: every number fits. From memory, and from a file."""
    Stamp.glimpsed(data)
    try:
        row_count = read_footer(data).row_count
    except ValueError:
        row_count = 0
    announced = Artifact("http://w:1/artifacts/a", max(1, len(data)), "", row_count, 0, 0, 1)
    descriptor = os.memfd_create("artifact")
    try:
        os.write(descriptor, data)
        with suppress(QuarterdeckError):
            for batch in FetchedArtifact(announced, None, Path(f"/proc/self/fd/{descriptor}")).read_batches():
                batch.to_pylist()
    finally:
        os.close(descriptor)
    batches: list[Any] = []
    with suppress(QuarterdeckError):
        batches += FetchedArtifact(announced, data, None).read_batches()
    with suppress(QuarterdeckError):
        read_series(batches)
    for leaf in _leaves():
        with suppress(QuarterdeckError):
            LeafReader(leaf, iter(batches)).drain()
    if _pa.default_memory_pool().max_memory() > _MOST_BYTES:
        raise BrokenPromiseError(f"it took {_pa.default_memory_pool().max_memory():,} bytes to read {len(data):,}")


@cache
def _leaves() -> Sequence[Any]:
    return [plan_query(query, 0, 9000, 1000, 60_000).leaves[0] for query in ("up", "sum(rate(up[1m]))")]


# Tasks, and what recruiters and workers are asked and answered


@cache
def tasks_samples() -> Sequence[bytes]:
    segment = SegmentRef(1, ObjectRef("/a/b.parquet", 100, "v"), "xxh3_128:00", 0, 10, 2)
    times, limits = QueryTimes(0, 10, 1, 5, 1), WorkLimits(1, 2, 3, 4)
    leaf = LeafTask("up", times, 0, "id", (segment,), Part(0, 2), limits)
    matchers = ((Matcher("job", MatchOp.EQUAL, "a\udcff"),),)
    series = SeriesTask(matchers, 0, 10, (segment,), Part(0, 1), 10)
    piece = Piece("/a#b", FileKind.NDJSON, 10, "v", 0, 10)
    return (
        encode_metrics_task(leaf),
        encode_metrics_task(series),
        encode_scan_task(ScanTask("SELECT 1", (ObjectRef("/a", 1, "v"),), "ts", True, 5)),
        encode_chunk(SearchSpec("a | count()", 5), Chunk(0, (piece,)), ["f"]),
        b'{"addr":"h:1","node_name":"n","timeout":30000,"labels":["a"],"slots":2}',
        b'{"number_requested":3,"label":"a"}',
        recruited_document([Recruited("h:1", "n", 2, "r")]),
        b'{"directive":"reserved","reservation":"r","label":"a"}',
    )


def try_tasks(data: bytes) -> None:
    readers: tuple[Callable[[bytes], object], ...] = (
        decode_metrics_task,
        decode_scan_task,
        lambda body: decode_chunk(body, 0),
        parse_register,
        parse_recruit,
    )
    for read in readers:
        with suppress(QuarterdeckError):
            read(data)
    with suppress(ValueError):
        parse_given(data, 5)
    with suppress(ValueError):
        parse_directive(data)


TARGETS: Final = {
    "control": Target(control_samples, try_control),
    "frames": Target(frames_samples, try_frames),
    "rows": Target(rows_samples, try_rows),
    "artifact": Target(artifact_samples, try_artifact),
    "tasks": Target(tasks_samples, try_tasks),
}


def inputs(target: Target, first: int, count: int) -> Iterator[bytes]:
    """The samples as they are, and so many damaged ones, which depend on their number alone."""
    yield from target.samples()
    for number in range(first, first + count):
        chance = random.Random(number)
        sample = chance.choice(target.samples())
        yield damaged(sample, chance.randbytes(EDIT_BYTES * chance.choice((1, 1, 2, 3, 6))))


def main(name: str, first: int, count: int, path: Path) -> None:
    target = TARGETS[name]
    with path.open("wb", buffering=0) as file:
        for data in inputs(target, first, count):
            file.seek(0)
            file.truncate()
            file.write(data)
            target.attempt(data)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
