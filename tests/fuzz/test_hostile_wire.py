"""Hostile bytes for everything that reads the wire: the decoder's own error, or what was meant; never a crash.

What is read by code in C is tried in a process of its own: one that ends there fails a test, and leaves its input.
"""

import asyncio
import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checks.hostile import EDIT_BYTES, TARGETS, Target, artifact_samples, damaged, frames_samples, rows_samples
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.failures import FetchError
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.format import Hasher, Stamp, checksum_text
from quarterdeck.crew.artifacts.receivers import MemoryReceiver
from quarterdeck.search.answer_check import AnswerCheck
from quarterdeck.search.engine.parts import part_schema
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.frames import FrameDecoder, FrameError, FrameKind, decode_report, encode_report
from quarterdeck.search.model import Chunk, FileKind, Piece, SearchSpec
from quarterdeck.search.row_payloads import RowsError, checked_rows, read_rows

REPEATABLE = settings(derandomize=True, deadline=None)
EDITS = st.lists(st.binary(min_size=EDIT_BYTES, max_size=EDIT_BYTES), min_size=1, max_size=6).map(b"".join)
IN_PYTHON = ("control", "frames", "tasks")
IN_C = ("rows", "artifact")


def damaged_samples(target: Target) -> st.SearchStrategy[bytes]:
    return st.builds(damaged, st.sampled_from(target.samples()), EDITS)


@pytest.mark.parametrize("name", IN_PYTHON)
def test_random_bytes_are_read_or_refused(name: str) -> None:
    @settings(REPEATABLE, max_examples=100)
    @given(st.binary(max_size=300))
    def check(data: bytes) -> None:
        TARGETS[name].attempt(data)

    check()


@pytest.mark.parametrize("name", IN_PYTHON)
def test_what_was_damaged_on_its_way_is_read_or_refused(name: str) -> None:
    @settings(REPEATABLE, max_examples=300)
    @given(damaged_samples(TARGETS[name]))
    def check(data: bytes) -> None:
        TARGETS[name].attempt(data)

    check()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**30, -(2**63), 2**64, "\ud800", "x" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def other_documents(draw: st.DrawFn) -> bytes:
    """Documents that are well made but for one value, which is of any type and size."""
    document: Any = json.loads(draw(st.sampled_from(TARGETS["tasks"].samples())))
    place = document
    while True:
        key = draw(st.sampled_from(_keys(place)))
        if not (_keys(place[key]) and draw(st.booleans())):
            break
        place = place[key]
    place[key] = draw(JSON)
    return json.dumps(document).encode()


def _keys(document: Any) -> list[Any]:
    match document:
        case dict():
            return sorted(cast("dict[str, Any]", document))
        case list():
            return list(range(len(cast("list[Any]", document))))
        case _:
            return []


@settings(REPEATABLE, max_examples=300)
@given(other_documents())
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"number_requested":' + b"9" * 100_000 + b"}")
@example(b"\xff\xfe{}")
def test_documents_with_one_wrong_value_are_read_or_refused(data: bytes) -> None:
    TARGETS["tasks"].attempt(data)


# An answer of search, as a whole


def answer(data: bytes) -> list[dict[str, Any]]:
    """The rows of an answer as a root takes them, or `FrameError`."""
    chunk = Chunk(0, (Piece("/a", FileKind.NDJSON, 10, "", 0, 10), Piece("/b", FileKind.NDJSON, 9, "", 0, 9)))
    check = AnswerCheck(plan_search(SearchSpec("*", 0)), chunk, {"f"})
    decoder, rows, is_whole = FrameDecoder(), list[dict[str, Any]](), False
    for frame in decoder.feed(data):
        if is_whole:
            raise FrameError("after the report")
        match frame.kind:
            case FrameKind.ROWS:
                check.rows(frame.payload)
                rows += [row for batch in read_rows(frame.payload) for row in batch.to_pylist()]
            case FrameKind.REPORT:
                check.report(*decode_report(frame.payload))
                is_whole = True
            case _:
                pass
    if not is_whole or decoder.has_rest:
        raise FrameError("cut off")
    return rows


def honest_answer() -> bytes:
    (progress, rows, report) = FrameDecoder().feed(frames_samples()[0])
    told, sent = decode_report(report.payload)
    del progress
    head = len(rows.payload).to_bytes(4, "little") + b"\x01"
    return head + rows.payload + encode_report(replace(told, matches=3, scanned_bytes=10), sent)


def test_an_answer_that_is_cut_off_counts_nowhere() -> None:
    whole = honest_answer()
    assert len(answer(whole)) == 3
    for kept in range(len(whole)):
        with pytest.raises(FrameError):
            answer(whole[:kept])


@settings(REPEATABLE, max_examples=500)
@given(EDITS)
def test_a_damaged_answer_has_the_same_rows_or_none(edits: bytes) -> None:
    honest = honest_answer()
    try:
        rows = answer(damaged(honest, edits))
    except FrameError:
        return
    assert rows == answer(honest)


@settings(REPEATABLE, max_examples=300)
@given(st.sampled_from(rows_samples()), EDITS)
def test_damaged_rows_are_noticed_by_their_checksum(stream: bytes, edits: bytes) -> None:
    payload = Hasher(stream).digest() + stream
    changed = damaged(payload, edits)
    if changed != payload:
        with pytest.raises(RowsError):
            checked_rows(changed, plan_schema())


def plan_schema() -> Any:
    return part_schema(plan_search(SearchSpec("*", 0)))


# An artifact, as a whole


def received(data: bytes, announced: Artifact) -> FetchedArtifact:
    receiver = MemoryReceiver(announced)

    async def receive() -> FetchedArtifact:
        await receiver.take(data)
        return await receiver.finish()

    return asyncio.run(receive())


def announced(data: bytes) -> Artifact:
    stamp = Stamp.glimpsed(data)
    assert stamp is not None
    checksum = checksum_text(Hasher(data))
    return Artifact("http://w:1/a", len(data), checksum, stamp.row_count, stamp.min_ts, stamp.max_ts, 1)


@settings(REPEATABLE, max_examples=200)
@given(st.sampled_from(artifact_samples()), EDITS)
def test_an_artifact_that_was_damaged_on_its_way_is_noticed(data: bytes, edits: bytes) -> None:
    changed = damaged(data, edits)
    if changed != data:
        with pytest.raises(FetchError):
            received(changed, announced(data))


@pytest.mark.parametrize("number", range(len(artifact_samples())))
def test_an_artifact_that_is_well_made_is_read(number: int) -> None:
    data = artifact_samples()[number]
    assert sum(batch.num_rows for batch in received(data, announced(data)).read_batches()) in (51, 59, 60)


def test_an_artifact_that_has_other_rows_than_it_says_is_an_error_of_the_protocol() -> None:
    data = artifact_samples()[-1]
    fetched = FetchedArtifact(Artifact("http://w:1/a", len(data), "", 61, 0, 0, 1), data, None)
    with pytest.raises(QuarterdeckError, match="it has 60 rows") as raised:
        list(fetched.read_batches())
    assert raised.value.code is ErrorCode.PROTOCOL


# Code in C


_TRY_FILES = """
import pathlib, sys
from checks.hostile import TARGETS
for path in sys.argv[2:]:
    TARGETS[sys.argv[1]].attempt(pathlib.Path(path).read_bytes())
"""


def tried(path: Path, *arguments: str) -> None:
    """Fails with the input in the file if it ended the process."""
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=100, check=False)
    if run.returncode != 0:
        left = base64.b64encode(path.read_bytes()).decode() if path.exists() else "no input"
        pytest.fail(f"it ended with {run.returncode}: {run.stderr[-2000:]}\nafter this input, in base64: {left}")


@pytest.mark.parametrize("name", IN_C)
def test_what_a_worker_made_to_hurt_ends_no_process(name: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    tried(path, "-m", "checks.hostile", name, "0", "2000", str(path))


def test_a_footer_that_ends_the_process_when_its_columns_are_asked_for_is_an_error(tmp_path: Path) -> None:
    """pyarrow 26 throws where nobody catches: "Definition level histogram size mismatch"."""
    paths = [tmp_path / "one", tmp_path / "two"]
    for path, sample, edits in zip(paths, (0, 1), ("7afd91d070", "a740c2934d"), strict=True):
        path.write_bytes(damaged(artifact_samples()[sample], bytes.fromhex(edits)))
    tried(paths[0], "-c", _TRY_FILES, "artifact", *map(str, paths))


def test_a_page_that_says_it_has_two_gigabytes_does_not_get_them(tmp_path: Path) -> None:
    path = tmp_path / "input"
    edits = "c3c3c3c3c3c3c3c3c359e7fa000000fff9005900 2525c3c3c300000000000000 07" + "c3" * 23 + "fb0084000000"
    path.write_bytes(damaged(artifact_samples()[0], bytes.fromhex(edits)))
    tried(path, "-c", _TRY_FILES, "artifact", str(path))
