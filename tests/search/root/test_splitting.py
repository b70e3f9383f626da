"""From sources to chunks: which files are meant, and every byte of them in exactly one piece."""

import asyncio
import gzip
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.model import FileKind, Piece
from quarterdeck.search.root.splitting import (
    CHUNK_FILES_MAX,
    PART_BYTES_MAX,
    PART_BYTES_MIN,
    SearchFile,
    find_files,
    split,
)
from quarterdeck.stores.objects import ObjectRef, ObjectStores

MIB = 1024 * 1024
KINDS = st.sampled_from(list(FileKind))


def file(name: str, size_bytes: int, kind: FileKind = FileKind.NDJSON) -> SearchFile:
    return SearchFile(ObjectRef(name, size_bytes, "v1"), kind)


def found(folder: Path, *sources: str) -> dict[str, FileKind]:
    files = asyncio.run(find_files(ObjectStores(), sources))
    return {file.ref.url.removeprefix(f"{folder}/"): file.kind for file in files}


# Splitting


@given(st.lists(st.tuples(st.integers(0, 300 * MIB), KINDS), max_size=60))
def test_every_byte_is_in_exactly_one_piece(sizes: list[tuple[int, FileKind]]) -> None:
    files = [file(f"/{number:03}", size, kind) for number, (size, kind) in enumerate(sizes)]
    chunks = split(files)
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    pieces = [piece for chunk in chunks for piece in chunk.pieces]
    places = [(piece.url, piece.start) for piece in pieces]
    assert places == sorted(places)
    of_file: defaultdict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        of_file[piece.url].append(piece)
    for one in files:
        parts = of_file[one.ref.url]
        assert sum(part.length_bytes for part in parts) == one.ref.size_bytes
        assert all(before.end == after.start for before, after in pairwise(parts))
        assert all((part.size_bytes, part.kind) == (one.ref.size_bytes, one.kind) for part in parts)
        if one.kind is not FileKind.NDJSON:
            assert len(parts) == 1


@given(st.lists(st.integers(1, 200 * MIB), min_size=1, max_size=200))
def test_chunks_are_neither_too_large_nor_of_too_many_files(sizes: list[int]) -> None:
    chunks = split([file(f"/{number:03}", size) for number, size in enumerate(sizes)])
    assert all(chunk.size_bytes <= PART_BYTES_MAX for chunk in chunks)
    assert all(len(chunk.pieces) <= CHUNK_FILES_MAX for chunk in chunks)
    for before, after in pairwise(chunks):  # and two neighbours that are small would be one
        assert (
            before.size_bytes + after.pieces[0].length_bytes > PART_BYTES_MIN or len(before.pieces) == CHUNK_FILES_MAX
        )


def test_a_file_is_in_a_few_parts_that_are_neither_small_nor_large() -> None:
    assert len(split([file("/a", 640 * MIB)])) == 16
    assert len(split([file("/a", 100 * MIB)])) == 13  # none below 8 MiB
    assert len(split([file("/a", 10_000 * MIB)])) == 157  # and none above 64 MiB


def test_an_empty_file_is_no_work_unless_it_cannot_be_empty() -> None:
    assert split([file("/a", 0)]) == []
    assert len(split([file("/a", 0, FileKind.PARQUET)])) == 1


# Finding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.ndjson", "b.LOG", "c.jsonl.gz", "deep/d.json.zst", "deep/e.parquet", "notes.txt", "x.gz", ".h.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"{}\n")
    return tmp_path


def test_of_a_folder_all_is_searched_that_has_a_known_suffix(folder: Path) -> None:
    assert found(folder, str(folder)) == {
        "a.ndjson": FileKind.NDJSON,
        "b.LOG": FileKind.NDJSON,
        "c.jsonl.gz": FileKind.GZIP,
        "deep/d.json.zst": FileKind.ZSTD,
        "deep/e.parquet": FileKind.PARQUET,
    }


def test_a_folder_without_any_says_what_it_has(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(QuarterdeckError, match=r"0\.txt, 1\.txt, 2\.txt and 2 more") as raised:
        found(tmp_path, str(tmp_path))
    assert raised.value.code is ErrorCode.NOT_FOUND


@pytest.mark.parametrize(
    "head, kind",
    [
        (b"", FileKind.NDJSON),
        (b'{"a":1}\n', FileKind.NDJSON),
        (gzip.compress(b"{}", mtime=0), FileKind.GZIP),
        (b"\x28\xb5\x2f\xfd....", FileKind.ZSTD),
        (b"PAR1....", FileKind.PARQUET),
        (b"\x1f", FileKind.NDJSON),
    ],
    ids=["empty", "line", "gzip", "zstd", "parquet", "half of gzip"],
)
def test_what_is_named_is_searched_whatever_it_is_called_and_its_first_bytes_say_what_it_is(
    tmp_path: Path, head: bytes, kind: FileKind
) -> None:
    (tmp_path / "out.txt").write_bytes(head)
    assert found(tmp_path, str(tmp_path / "out.txt")) == {"out.txt": kind}
    assert found(tmp_path, f"{tmp_path}/*.txt") == {"out.txt": kind}


def test_a_file_that_several_sources_mean_is_searched_once_where_it_came_first(folder: Path) -> None:
    names = found(folder, f"{folder}/deep/e.parquet", str(folder), f"{folder}/a.*")
    assert list(names) == ["deep/e.parquet", "a.ndjson", "b.LOG", "c.jsonl.gz", "deep/d.json.zst"]


def test_a_folder_with_a_single_file_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "only.txt").touch()
    with pytest.raises(QuarterdeckError, match="has nothing to search"):
        found(tmp_path, str(tmp_path))


def test_a_source_that_finds_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuarterdeckError, match="nowhere") as raised:
        found(tmp_path, str(tmp_path / "nowhere"))
    assert raised.value.code is ErrorCode.NOT_FOUND
