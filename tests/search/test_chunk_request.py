"""The request for a chunk: a root's own words come back, and a stranger's are understood or refused."""

import json

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search.chunk_request import AskedPiece, decode_chunk, encode_chunk
from quarterdeck.search.model import Chunk, FileKind, Order, Piece, SearchSpec

PIECES = (
    Piece("/logs/a.ndjson", FileKind.NDJSON, 1000, "1000-5", 200, 400),
    Piece("s3://lake/b#bytes=1-2", FileKind.GZIP, 7, '"e-tag"', 0, 7),
    Piece("/logs/c d\u00e9.parquet", FileKind.PARQUET, 0, "", 0, 0),
)


def test_what_a_root_sends_is_what_a_worker_gets() -> None:
    spec = SearchSpec('err* | count() by "x"', 5, Order.NONE, "ts", 1, 2)
    request = decode_chunk(encode_chunk(spec, Chunk(3, PIECES), {"b", "a"}), now_us=99)
    assert request.spec == spec
    assert request.ask_about == ("a", "b")
    found = [Piece(p.url, FileKind(p.kind), p.size_bytes or 0, p.version, p.start, p.end or 0) for p in request.pieces]
    assert tuple(found) == PIECES


def asked(**document: object) -> dict[str, object]:
    return {"query": "*", "chunk_paths": [], **document}


def pieces(**document: object) -> tuple[AskedPiece, ...]:
    return decode_chunk(json.dumps(asked(**document)).encode(), now_us=99).pieces


def test_a_stranger_names_files_and_nothing_more() -> None:
    request = decode_chunk(b'{"query":"x","chunk_paths":["/a","s3://b/c"]}', now_us=99)
    assert request.spec == SearchSpec("x", 99, Order.TIME)
    assert request.pieces == (AskedPiece("/a"), AskedPiece("s3://b/c"))


def test_a_part_of_a_file_has_a_range() -> None:
    assert pieces(chunk_paths=["/a#bytes=10-20"]) == (AskedPiece("/a", 10, 20),)


@pytest.mark.parametrize("data_path", ["/data", "/data/", "file:///data"])
def test_relative_paths_begin_at_the_data_path(data_path: str) -> None:
    assert pieces(chunk_paths=["x/a", "/b"], data_path=data_path) == (AskedPiece("/data/x/a"), AskedPiece("/b"))
    assert pieces(chunk_paths=["a"], data_path="s3://lake/day") == (AskedPiece("s3://lake/day/a"),)


@pytest.mark.parametrize(
    "document, why",
    [
        (asked(chunk_paths=["a"]), "no data_path"),
        (asked(chunk_paths=["../a"], data_path="/data"), r"a `\.\.` in it"),
        (asked(chunk_paths=["ftp://a/b"]), "not a kind of store"),
        (asked(chunk_paths=["/a#bytes=5-4"]), "no such bytes"),
        (asked(chunk_paths=["/a#bytes=0-11"], sizes=[10]), "no such bytes"),
        (asked(chunk_paths=["/a"], sizes=[1, 2]), "sizes has 2 items, and chunk_paths 1"),
        (asked(chunk_paths=["/a"], versions=[]), "versions has 0 items"),
        (asked(chunk_paths=["/a"], kinds=["zip"]), "kinds"),
        (asked(chunk_paths=["/a"], sizes=[-1]), "sizes"),
        (asked(order="up"), "order"),
        (asked(unheard_of=1), "unheard_of"),
        ({"chunk_paths": []}, "query"),
        ([], "an object"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(document: object, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as refused:
        decode_chunk(json.dumps(document).encode(), now_us=99)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


def test_no_json_is_refused() -> None:
    with pytest.raises(QuarterdeckError, match="cannot be understood"):
        decode_chunk(b"{", now_us=99)
