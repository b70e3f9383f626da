"""Pieces of a chunk: every line is in exactly one of them, and what cannot be had is told."""

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.search import piece_opening
from quarterdeck.search.chunk_request import AskedPiece
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.model import FileKind, FileProblem, Piece
from quarterdeck.search.piece_finding import find_pieces
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.stores.object_errors import changed, not_found, unreachable
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.patience import PATIENCE_S
from tests.stores.budgets import small_budget
from tests.stores.shop import Shop


class Bucket(Shop):
    """A shop that also sells by the metre."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []
        self.refusal: QuarterdeckError | None = None

    async def read_range(self, ref: ObjectRef, start: int, end: int) -> bytes:
        assert 0 <= start < end <= ref.size_bytes
        if self.refusal is not None:
            raise self.refusal
        self.ranges.append((start, end))
        return self._goods[ref.url][start:end]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await coroutine

    return asyncio.run(bounded())


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.bucket = Bucket()
        self.cache = ParquetCache(tmp_path / "cache", small_budget(tmp_path / "artifacts", 1_000_000), self.bucket)
        self.cache.recover()
        self.opener = PieceOpener(self.bucket, self.cache)

    def open(self, *pieces: Piece) -> tuple[list[OpenPiece], list[FileProblem]]:
        async def opened() -> tuple[list[OpenPiece], list[FileProblem]]:
            async with self.opener.opened(pieces) as found:
                return found

        return run(opened())

    def lines(self, piece: Piece) -> bytes:
        (opened,), problems = self.open(piece)
        assert not problems
        assert opened.path is None
        assert opened.data is not None
        return opened.data


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def part_of(ref: ObjectRef, start: int, end: int) -> Piece:
    return Piece(ref.url, FileKind.NDJSON, ref.size_bytes, ref.version, start, end)


# Lines of S3


@pytest.mark.parametrize(
    "start, end, expected",
    [
        (0, 4, b"aaa\n"),
        (0, 3, b"aaa\n"),
        (0, 1, b"aaa\n"),
        (0, 5, b"aaa\nbb\n"),
        (1, 4, b""),
        (3, 4, b""),
        (4, 5, b"bb\n"),
        (4, 7, b"bb\n"),
        (5, 8, b"c"),
        (7, 8, b"c"),
        (6, 7, b""),
        (0, 8, b"aaa\nbb\nc"),
        (4, 4, b""),
        (8, 8, b""),
    ],
)
def test_a_piece_is_the_lines_that_begin_in_it(scene: Scene, start: int, end: int, expected: bytes) -> None:
    ref = scene.bucket.stock("a", data=b"aaa\nbb\nc")
    assert scene.lines(part_of(ref, start, end)) == expected


@pytest.mark.parametrize("ahead_bytes", [1, 3, 64])
def test_every_line_is_in_exactly_one_piece_however_the_file_is_divided(
    scene: Scene, ahead_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piece_opening, "_AHEAD_BYTES", ahead_bytes)
    chance = random.Random(ahead_bytes)
    for number in range(150):
        lines = [bytes(chance.choices(b"ab\r", k=chance.choice([0, 1, 3, 20]))) for _ in range(chance.randrange(8))]
        data = b"\n".join(lines) + chance.choice([b"", b"\n"])
        if not data:
            continue
        ref = scene.bucket.stock(f"{number}", data=data)
        inner = chance.sample(range(len(data) + 1), min(len(data), chance.randrange(5)))
        cuts = sorted({0, len(data), *inner})
        found = [scene.lines(part_of(ref, start, end)) for start, end in pairwise(cuts)]
        assert b"".join(found) == data


def test_mostly_one_request_is_enough(scene: Scene) -> None:
    data = b"".join(b"%0100d\n" % number for number in range(10_000))
    ref = scene.bucket.stock("a", data=data)
    assert len(scene.lines(part_of(ref, 200_000, 300_000))) == pytest.approx(100_000, abs=200)
    assert scene.bucket.ranges == [(199_999, 300_000 + 65_536)]
    assert scene.opener.received_bytes == 100_001 + 65_536


def test_a_line_that_never_ends_is_not_read_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_opening, "LONGEST_LINE_BYTES", 200_000)
    ref = scene.bucket.stock("a", data=b"x" * 2_000_000)
    opened, problems = scene.open(part_of(ref, 0, 1000), part_of(ref, 1000, 2000))
    assert problems == [FileProblem(ref.url, "a line is longer than 0 MiB")]
    assert [piece.data for piece in opened] == [b""]
    assert max(end for _, end in scene.bucket.ranges) < 600_000


# What else is in S3


@pytest.mark.parametrize("kind", [FileKind.GZIP, FileKind.ZSTD, FileKind.PARQUET])
def test_what_is_no_plain_lines_comes_through_the_cache(scene: Scene, kind: FileKind) -> None:
    ref = scene.bucket.stock("a") if kind is FileKind.PARQUET else scene.bucket.stock("a", data=b"anything")
    piece = Piece(ref.url, kind, ref.size_bytes, ref.version, 0, ref.size_bytes)

    async def look() -> None:
        for _ in range(2):
            async with scene.opener.opened([piece]) as ((opened,), problems):
                assert not problems
                assert opened.path is not None
                assert opened.path.stat().st_size == ref.size_bytes

    run(look())
    assert len(scene.bucket.deliveries) == 1
    assert scene.opener.received_bytes == ref.size_bytes


@pytest.mark.parametrize("refusal", [not_found, changed])
def test_what_is_not_there_is_told_and_the_rest_is_opened(
    scene: Scene, tmp_path: Path, refusal: Callable[[str], QuarterdeckError]
) -> None:
    ref = scene.bucket.stock("a", data=b"x\n")
    scene.bucket.refusal = refusal(ref.url)
    local = tmp_path / "b"
    local.write_bytes(b"x\n")
    opened, problems = scene.open(part_of(ref, 0, 2), Piece(str(local), FileKind.NDJSON, 2, "", 0, 2))
    assert problems == [FileProblem(ref.url, scene.bucket.refusal.why)]
    assert [piece.path for piece in opened] == [local]


def test_a_store_that_is_away_may_be_back_a_moment_later(scene: Scene) -> None:
    ref = scene.bucket.stock("a", data=b"x\n")
    scene.bucket.refusal = unreachable(ref.url, "it is away")
    with pytest.raises(QuarterdeckError, match="it is away"):
        scene.open(*[part_of(ref, 0, 2)] * 20)


# Local files


def listed(path: Path, kind: FileKind = FileKind.NDJSON) -> Piece:
    ref = asyncio.run(ObjectStores().head(str(path)))
    return Piece(ref.url, kind, ref.size_bytes, ref.version, 0, ref.size_bytes)


@pytest.mark.parametrize("kind", list(FileKind))
def test_a_local_file_is_searched_where_it_is(scene: Scene, tmp_path: Path, kind: FileKind) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x\n")
    piece = listed(file, kind)
    assert scene.open(piece) == ([OpenPiece(piece, file, None)], [])


def test_lines_may_be_added_to_a_plain_file(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x\n")
    piece = listed(file)
    file.write_bytes(b"x\ny\n")
    assert scene.open(piece)[1] == []


def why(scene: Scene, piece: Piece) -> str:
    opened, (problem,) = scene.open(piece)
    assert opened == []
    assert problem.url == piece.url
    return problem.why


def test_a_plain_file_that_has_shrunk_is_told(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x\ny\n")
    piece = listed(file)
    file.write_bytes(b"x\n")
    assert why(scene, piece) == "it had 4 bytes when it was listed, and has 2 now"


@pytest.mark.parametrize("kind", [FileKind.GZIP, FileKind.PARQUET])
def test_another_file_that_has_changed_is_told(scene: Scene, tmp_path: Path, kind: FileKind) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x\n")
    piece = listed(file, kind)
    file.write_bytes(b"x\ny\n")
    assert why(scene, piece) == "it has changed since it was listed"


def test_what_is_no_readable_file_is_told(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why(scene, Piece(f"{tmp_path}/none", FileKind.NDJSON, 1, "", 0, 1)) == "there is no such file"
    assert why(scene, Piece(str(tmp_path), FileKind.NDJSON, 1, "", 0, 1)) == "it is a folder"
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for somebody to write
    assert why(scene, Piece(f"{tmp_path}/pipe", FileKind.NDJSON, 1, "", 0, 1)).startswith("it is a FIFO")
    (tmp_path / "a").write_bytes(b"x\n")

    listed_before = listed(tmp_path / "a")

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(piece_opening.os, "open", denied)
    assert why(scene, listed_before) == "Permission denied"


def test_pieces_stay_in_their_order(scene: Scene, tmp_path: Path) -> None:
    pieces: list[Piece] = []
    for number in range(30):
        (tmp_path / f"{number}").write_bytes(b"x\n")
        pieces.append(listed(tmp_path / f"{number}"))
    opened, _ = scene.open(*pieces)
    assert [each.piece for each in opened] == pieces


# Pieces that were named, and no more


def found(*asked: AskedPiece) -> tuple[list[Piece], list[FileProblem]]:
    return run(find_pieces(ObjectStores(), asked))


def test_what_was_not_told_of_a_file_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b"x\n")
    (tmp_path / "b").write_bytes(b"\x1f\x8b rest")
    (tmp_path / "c").write_bytes(b"")
    plain, packed, empty = (listed(tmp_path / name) for name in ("a.ndjson", "b", "c"))
    pieces, problems = found(*(AskedPiece(piece.url) for piece in (plain, packed, empty)), AskedPiece("/no/such"))
    assert pieces[0] == plain
    assert (pieces[1].kind, pieces[1].end) == (FileKind.GZIP, 7)
    assert pieces[2] == empty
    assert problems == [FileProblem("/no/such", "there is no such object")]


def test_a_range_is_cut_to_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b"x\ny\n")
    ((one, other), _) = found(AskedPiece(f"{tmp_path}/a.ndjson", 2, 99), AskedPiece(f"{tmp_path}/a.ndjson", 50, 99))
    assert (one.start, one.end, other.start, other.end) == (2, 4, 4, 4)


def test_what_was_told_of_a_file_is_believed() -> None:
    asked = AskedPiece("/no/such", 1, 2, 3, "v", FileKind.NDJSON)
    assert found(asked) == ([Piece("/no/such", FileKind.NDJSON, 3, "v", 1, 2)], [])
