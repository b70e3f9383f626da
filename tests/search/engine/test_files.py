"""Files of all kinds, whole and in pieces, sound and damaged."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.search.engine import groups as groups_module
from quarterdeck.search.engine import pieces as pieces_module
from quarterdeck.search.engine import searching as searching_module
from quarterdeck.search.engine.line_buffer import LineBuffer
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.engine.pieces import DamagedPieceError, line_blocks
from quarterdeck.search.model import FileKind, FileProblem, Order, Piece
from tests.search.engine.searched import IN_THIS_PROCESS, Bench, part, parts, whole

WAYS = IN_THIS_PROCESS
pytestmark = pytest.mark.usefixtures("gathered_in_one_database")

SUFFIXES = ["ndjson", "ndjson.gz", "ndjson.zst"]


def ids(lines: list[str]) -> list[int]:
    return [json.loads(line)["id"] for line in lines]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("in_memory", [False, True])
def test_files_of_every_kind_are_read_wherever_they_are(bench: Bench, suffix: str, in_memory: bool) -> None:
    paths = [bench.write(f"{name}.{suffix}", *({"id": name * 10 + i} for i in range(3))) for name in range(3)]
    answer = bench.search("", [[whole(path, in_memory=in_memory) for path in paths]])
    assert ids(answer.lines) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert answer.problems == []
    assert answer.reports[0].scanned_bytes == sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file_has_no_records(bench: Bench, suffix: str) -> None:
    path = bench.write(f"empty.{suffix}")
    answer = bench.search("| count()", [[whole(path)]])
    assert answer.rows == [{"count": 0}]
    assert answer.problems == []


def test_a_last_line_without_an_end_is_a_line(bench: Bench) -> None:
    path = bench.folder / "open.ndjson"
    path.write_text('{"id":1}\r\n\n   \n{"id":2}')
    assert ids(bench.search("", [[whole(path)]]).lines) == [1, 2]
    assert ids(bench.search("", [[piece] for piece in parts(path, [9])]).lines) == [1, 2]


def test_bad_lines_are_counted_by_file_and_the_others_are_searched(bench: Bench) -> None:
    bad = ["nope", "[1]", '"text"', "null", "5", '{"id":9', '{"id":1} {"id":2}', "{'id':1}"]
    first = bench.write("first.ndjson", {"id": 1}, *bad, {"id": 2})
    second = bench.write("second.ndjson", {"id": 3})
    third = bench.write("third.ndjson", "x", {"id": 4}, "y")
    chunk = [whole(path) for path in (first, second, third)]
    for query in ("", "id<9", "| head 100", "| uniq", "| sort id", "| cut id", "| sort id | head 4"):
        answer = bench.search(query, [chunk])
        assert ids(answer.lines) == [1, 2, 3, 4], query
        assert answer.matches == 4
        assert {problem.url: problem.lines for problem in answer.problems} == {str(first): 8, str(third): 2}, query
    for query in ("| count()", "| count(id) as count", "| count() by nothere | cut count", "| cut id | count()"):
        answer = bench.search(query, [chunk])
        assert answer.rows == [{"count": 4}], query
        assert {problem.url: problem.lines for problem in answer.problems} == {str(first): 8, str(third): 2}, query
    answer = bench.search("| sum(id)", [[piece] for piece in chunk])
    assert answer.rows == [{"sum_id": 10}]
    assert {problem.url: problem.lines for problem in answer.problems} == {str(first): 8, str(third): 2}
    answer = bench.search("| fields", [chunk])
    assert answer.rows == [{"field": "id", "count": 4}]
    assert answer.matches == 4
    assert {problem.url: problem.lines for problem in answer.problems} == {str(first): 8, str(third): 2}


def test_bytes_that_are_no_text_are_a_bad_line(bench: Bench) -> None:
    path = bench.folder / "bytes.ndjson"
    path.write_bytes(b'{"id":1}\n{"id":"\xff\xfe"}\n\x00\x01\n{"id":2}\n')
    answer = bench.search("", [[whole(path)]])
    assert ids(answer.lines) == [1, 2]
    assert answer.problems == [FileProblem(str(path), "lines are not JSON objects", 2)]


def test_an_object_with_a_key_twice_is_a_record_in_every_search(bench: Bench) -> None:
    lines = ['{"id":1,"n":5,"n":6}', '{"id":2,"n":7}']
    assert bench.found("| sum(n)", *lines).rows == [{"sum_n": 12}]
    assert bench.found("n=5", *lines).matches == 1
    assert bench.found("| sum(n)", *lines).problems == []


# Pieces


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    lengths=st.lists(st.integers(0, 12), max_size=12),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    ends_with_newline=st.booleans(),
)
def test_every_line_is_in_exactly_one_piece(
    tmp_path: Path, lengths: list[int], cuts: list[int], ends_with_newline: bool
) -> None:
    lines = [b"%d" % number * length for number, length in enumerate(lengths)]
    path = tmp_path / "lines.ndjson"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends_with_newline)
    size = path.stat().st_size
    found: list[bytes] = []
    buffer = LineBuffer()
    for piece in parts(path, [min(cut, size) for cut in cuts]):
        for _ in line_blocks(piece, buffer):
            ((start, end),) = buffer.parts
            found += buffer.room[start:end].tobytes().split(b"\n")
    assert [line for line in found if line] == [line for line in lines if line]


def test_every_place_to_cut_a_file_gives_every_record_once(bench: Bench) -> None:
    path = bench.write("log.ndjson", {"id": 1}, {"id": 22, "x": "yz"}, {"id": 333}, "bad", {"id": 4})
    for cut in range(path.stat().st_size + 1):
        answer = bench.search("", [[piece] for piece in parts(path, [cut])])
        assert ids(answer.lines) == [1, 22, 333, 4]
        assert sum(problem.lines for problem in answer.problems) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_piece_larger_than_a_block_is_read_in_blocks(
    bench: Bench, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(pieces_module, "_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(groups_module, "_TOGETHER_BYTES", 1000)
    monkeypatch.setattr(pieces_module, "_LOOK_BYTES", 16)
    lines = [{"id": i, "ts": 1000 - i, "host": f"h{i % 3}", "pad": "x" * (i % 200)} for i in range(90)]
    path = bench.write(f"log.{suffix}", *lines)
    # In pieces that begin within it a plain file is not read by its path.
    chunks = [[part(path, 0, path.stat().st_size - 1)]] if suffix == "ndjson" else [[whole(path)]]
    assert ids(bench.search("", chunks).lines) == list(range(90))
    assert ids(bench.search("| tail 5", chunks, order=Order.TIME).lines) == [4, 3, 2, 1, 0]
    assert ids(bench.search("| sort -r id | head 2", chunks).lines) == [89, 88]
    assert ids(bench.search("| head 40", chunks).lines) == list(range(40))
    assert bench.search("| count() by host", chunks).rows == [{"host": f"h{i}", "count": 30} for i in range(3)]
    assert bench.search("| cut host | uniq -c", chunks).rows == [{"host": f"h{i}", "count": 30} for i in range(3)]


def test_a_file_that_has_grown_is_searched_as_it_was_listed(bench: Bench) -> None:
    path = bench.write("log.ndjson", {"id": 1}, {"id": 2})
    listed = whole(path)
    with path.open("a") as file:
        file.write('{"id":3}\n')
    assert ids(bench.search("", [[listed]]).lines) == [1, 2]


def test_a_file_that_is_shorter_than_it_was_is_named(bench: Bench) -> None:
    path = bench.write("log.ndjson", {"id": 1}, {"id": 2})
    listed = whole(path)
    path.write_text('{"id":1}\n')
    answer = bench.search("| count()", [[listed]])
    assert answer.rows == [{"count": 0}]
    assert answer.problems == [FileProblem(str(path), "it is shorter than when it was listed")]


def test_a_file_that_is_gone_is_named_and_hides_no_other(bench: Bench) -> None:
    there = bench.write("there.ndjson", {"id": 1})
    for name in ("gone.ndjson", "gone.ndjson.gz", "gone.parquet"):
        answer = bench.search("", [[whole(bench.folder / name), whole(there)]])
        assert ids(answer.lines) == [1]
        assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(bench.folder / name), 0)]


def test_a_line_that_is_too_long_is_a_problem_of_its_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "LONGEST_LINE_BYTES", 2000)
    monkeypatch.setattr(pieces_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(pieces_module, "_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(groups_module, "_TOGETHER_BYTES", 1000)
    monkeypatch.setattr(pieces_module, "_LOOK_BYTES", 16)
    for suffix in SUFFIXES:
        path = bench.write(f"log.{suffix}", {"id": 1}, {"id": 2, "pad": "x" * 5000}, {"id": 3})
        piece = part(path, 0, path.stat().st_size - 1) if suffix == "ndjson" else whole(path)
        answer = bench.search("", [[piece, whole(bench.write("other.ndjson", {"id": 9}))]])
        assert ids(answer.lines) == [9]
        assert [problem.why for problem in answer.problems] == ["a line is longer than 0 MiB"]


def test_a_line_longer_than_duckdb_itself_would_read_is_read(bench: Bench) -> None:
    long = bench.write("long.ndjson", {"id": 1}, {"id": 2, "pad": "x" * (40 * 1024**2)})
    answer = bench.search("| cut id", [[whole(long), whole(bench.write("other.ndjson", {"id": 9}))]])
    assert ids(answer.lines) == [1, 2, 9]
    assert not answer.problems


# Damage


@pytest.mark.parametrize("suffix", ["ndjson.gz", "ndjson.zst"])
@pytest.mark.parametrize("damage", ["cut off", "cut by one", "garbage after it", "garbage alone"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_damaged_file_leaves_nothing_but_its_name(
    bench: Bench, suffix: str, damage: str, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_blocks:
        monkeypatch.setattr(pieces_module, "_UNPACKED_BYTES", 1000)
        monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    generator = random.Random(1)
    path = bench.write(f"log.{suffix}", *({"id": i, "r": generator.random()} for i in range(200)))
    data = path.read_bytes()
    match damage:
        case "cut off":
            data = data[: len(data) // 2]
        case "cut by one":
            data = data[:-1]
        case "garbage after it":
            data += b"garbage"
        case _:
            data = b"garbage" * 10
    path.write_bytes(data)
    other = bench.write(f"other.{suffix}", {"id": 9})
    for query in ("", "| sort id", "| tail 1000"):
        answer = bench.search(query, [[whole(path), whole(other)]])
        assert ids(answer.lines) == [9]
        assert answer.matches == 1
        assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(path), 0)]
    assert bench.search("| count()", [[whole(path), whole(other)]]).rows == [{"count": 1}]


def test_a_checksum_that_does_not_fit_is_noticed(bench: Bench) -> None:
    path = bench.write("log.ndjson.gz", *({"id": i} for i in range(50)))
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    answer = bench.search("", [[whole(path)]])
    assert answer.lines == []
    assert "incorrect data check" in answer.problems[0].why


def test_a_small_file_that_unpacks_to_much_is_read_in_blocks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_LARGEST_RATIO", 0)
    path = bench.write("log.ndjson.gz", *({"id": i} for i in range(50)))
    assert ids(bench.search("", [[whole(path)]]).lines) == list(range(50))


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("suffix", ["ndjson.gz", "ndjson.zst"])
def test_a_file_of_several_compressed_parts_is_read_to_its_end(
    bench: Bench, suffix: str, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_blocks:
        monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    data = b"".join(bench.write(f"{i}.{suffix}", {"id": i}).read_bytes() for i in range(3))
    path = bench.folder / f"joined.{suffix}"
    path.write_bytes(data)
    assert ids(bench.search("", [[whole(path)]]).lines) == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["ndjson.gz", "ndjson.zst"])
def test_more_than_can_be_held_back_is_looked_through_ahead(
    bench: Bench, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(searching_module, "_HELD_BYTES", 3000)
    sound = bench.write(f"sound.{suffix}", *({"id": i} for i in range(500)))
    damaged = bench.write(f"damaged.{suffix}", *({"id": i, "r": i * 7919 % 104729} for i in range(2000)))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    answer = bench.search("", [[whole(damaged), whole(sound)]])
    assert ids(answer.lines) == list(range(500))
    assert [problem.url for problem in answer.problems] == [str(damaged)]


def test_the_end_of_a_file_is_not_read_when_head_does_not_need_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(groups_module, "_SMALL_BYTES", 0)
    path = bench.write("log.ndjson.gz", *({"id": i, "r": i * 7919 % 104729} for i in range(5000)))
    path.write_bytes(path.read_bytes()[:-20])
    answer = bench.search("| head 3", [[whole(path)]])
    assert ids(answer.lines) == [0, 1, 2]
    assert answer.problems == []
    assert answer.matches < 5000


def test_a_piece_must_be_a_file_or_bytes(tmp_path: Path) -> None:
    piece = Piece("a", FileKind.NDJSON, 0, "", 0, 0)
    with pytest.raises(AssertionError):
        OpenPiece(piece, None, None)
    with pytest.raises(AssertionError):
        OpenPiece(piece, tmp_path, b"")
    with pytest.raises(AssertionError):
        OpenPiece(replace(piece, kind=FileKind.PARQUET), None, b"")


def test_bytes_that_a_file_no_longer_has_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(b"x" * 100)
    with path.open("rb") as file, pytest.raises(EOFError):
        LineBuffer().hold_part_of(file.fileno(), 50, 200)
    assert issubclass(DamagedPieceError, Exception)


# Fields that are asked about


@pytest.mark.parametrize("suffix", [*SUFFIXES, "two"])
def test_a_chunk_tells_which_fields_its_records_have(bench: Bench, suffix: str) -> None:
    lines = ['{"id":1,"a":{"b":2}}', '{"id":1,"n":null}', '[{"list":1}]', r'{"\u0068ost":1,"x y":1,"q\"q":1}']
    if suffix == "two":
        chunk = [whole(bench.write("1.ndjson", *lines[:2])), whole(bench.write("2.ndjson", *lines[2:]))]
    else:
        chunk = [whole(bench.write(f"log.{suffix}", *lines))]
    asked = {"id", "a", "a.b", "a.c", "n", "list", "host", "hos", "x y", 'q"q', "", "nothere"}
    for query in ("id=77", "| count()", "| sum(id)"):
        answer = bench.search(query, [chunk], ask_about=asked)
        assert answer.seen == {"id", "a", "a.b", "host", "x y", 'q"q'}
    assert bench.search("", [chunk]).seen == set()


@pytest.mark.parametrize("query", ["x!=*", "[now-1h, now]", "id=77"])
def test_bad_lines_are_named_even_if_no_record_can_fulfil_the_condition(bench: Bench, query: str) -> None:
    path = bench.write("log.ndjson", {"id": 1}, "bad", {"id": 2}, "bad")
    answer = bench.search(query, [[whole(path)]], time_field=None)
    assert answer.lines == []
    assert [(problem.url, problem.lines) for problem in answer.problems] == [(str(path), 2)]


def test_a_byte_order_mark_does_not_cost_the_first_record(bench: Bench) -> None:
    for suffix in SUFFIXES:
        path = bench.write(f"log.{suffix}", '\ufeff{"id":1}', {"id": 2})
        answer = bench.search("", [[whole(path)]])
        assert answer.lines == ['{"id":1}', '{"id": 2}']
        assert not answer.problems
