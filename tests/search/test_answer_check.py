"""Answers to chunks: those of workers that searched add up, and others do not."""

from dataclasses import replace
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.search.answer_check import AnswerCheck
from quarterdeck.search.engine.parts import part_schema
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.frames import FrameError
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Order, Piece, SearchSpec, Sent
from quarterdeck.search.row_payloads import RowPayloads

_arrow: Any = pyarrow
CHUNK = Chunk(
    3,
    (
        Piece("/a", FileKind.NDJSON, 1000, "", 100, 200),
        Piece("/b", FileKind.GZIP, 30, "", 0, 30),
        Piece("/c", FileKind.PARQUET, 7, "", 0, 7),
        Piece("/empty", FileKind.NDJSON, 0, "", 0, 0),
    ),
)
COUNT_B, SUM_B = "* | count(b) by a", "* | sum(b) by a"
WHOLE = ChunkReport(137, 2, (), frozenset(), 4)
NOTHING = RowPayloads().sent


def records(count: int) -> list[dict[str, Any]]:
    return [{"time_us": None, "pos": number, "line": "x"} for number in range(count)]


def counted(*numbers: int, query: str = "* | count() by a", **more: int | None) -> list[dict[str, Any]]:
    """Rows that stand for so many records; `more` are other columns of all."""
    names = plan_schema(query).names
    there = {"pos": 0, "line": "x", "name": "x"}
    rows = [{name: there.get(name, number if name == "s0" else None) for name in names} for number in numbers]
    return [row | {"n": number} | more for row, number in zip(rows, numbers, strict=True)]


def plan_schema(query: str) -> Any:
    return part_schema(plan_search(SearchSpec(query, 0, Order.NONE)))


def check(report: ChunkReport, rows: list[dict[str, Any]], query: str = "*", sent: Sent | None = None) -> None:
    check = AnswerCheck(plan_search(SearchSpec(query, 0, Order.NONE)), CHUNK, {"asked"})
    payloads = RowPayloads()
    batches = [_arrow.RecordBatch.from_pylist(rows, plan_schema(query))] if rows else []
    for payload in payloads.of(batches):
        check.rows(payload)
    check.report(report, sent or payloads.sent)


def damaged(url: str, lines: int = 0) -> FileProblem:
    return FileProblem(url, "damaged", lines)


@pytest.mark.parametrize(
    "report, rows, query",
    [
        (WHOLE, records(2), "*"),
        (replace(WHOLE, seen=frozenset({"asked"})), records(2), "*"),
        (replace(WHOLE, problems=(damaged("/a", 3),)), records(2), "*"),
        (ChunkReport(37, 0, (damaged("/a"),), pieces=3), [], "*"),
        (ChunkReport(0, 0, tuple(damaged(piece.url) for piece in CHUNK.pieces)), [], "*"),
        (WHOLE, records(1), "* | cut a"),
        (ChunkReport(0, 2, pieces=0), records(2), "* | head 2"),
        (ChunkReport(100, 2, pieces=1), records(2), "* | head 2"),
        (replace(WHOLE, matches=50), records(2), "* | sort a | head 2"),
        (WHOLE, records(2), "* | tail 2"),
        (replace(WHOLE, matches=7), counted(3, 4), "* | count() by a"),
        (replace(WHOLE, matches=0), counted(0), "* | count()"),
        (replace(WHOLE, matches=7), counted(3, 4, query=COUNT_B, s0=2), COUNT_B),
        (replace(WHOLE, matches=7), counted(3, 4, query=SUM_B, s0_in=2, s0_dn=1), SUM_B),
        (replace(WHOLE, matches=0), counted(0, query="* | sum(b)"), "* | sum(b)"),
        (replace(WHOLE, matches=2**63 - 2), counted(2**62 - 1, 2**62 - 1), "* | count() by a"),
        (replace(WHOLE, matches=5), counted(5, 5, 1, query="* | fields"), "* | fields"),
        (replace(WHOLE, matches=9), counted(3, 4, query="* | cut b | uniq"), "* | cut b | uniq"),
    ],
)
def test_an_answer_of_a_worker_that_searched_adds_up(
    report: ChunkReport, rows: list[dict[str, Any]], query: str
) -> None:
    check(report, rows, query)


@pytest.mark.parametrize(
    "report, rows, query, why",
    [
        (ChunkReport(0, 0), [], "*", "0 pieces with 0 bytes were searched, of 4 with 137 bytes"),
        (ChunkReport(137, 0, pieces=3), [], "*", "3 pieces"),
        (ChunkReport(136, 0, pieces=4), [], "*", "136 bytes"),
        (ChunkReport(138, 0, pieces=4), [], "*", "138 bytes"),
        (ChunkReport(137, 0, (damaged("/a"),), pieces=4), [], "*", "of 3 with 37 bytes"),
        (ChunkReport(137, 0, (damaged("/other"),), pieces=4), [], "*", "'/other', which is not in the chunk"),
        (ChunkReport(0, 1, pieces=0), records(1), "* | head 2", "0 pieces"),
        (ChunkReport(200, 2, pieces=2), records(2), "* | head 2", "200 bytes"),
        (ChunkReport(137, 3, pieces=4), records(3), "* | head 2", "3 rows came, and 2 were asked for"),
        (WHOLE, records(1), "*", "the rows stand for 1 records, and 2 are said to match"),
        (WHOLE, records(3), "*", "the rows stand for 3 records"),
        (WHOLE, records(3), "* | cut a", "the rows stand for 3 records"),
        (WHOLE, records(1), "* | sort a | head 5", "the rows stand for 1 records"),
        (WHOLE, counted(1), "* | count() by a", "the rows stand for 1 records"),
        (WHOLE, counted(1, 1, 1, query="* | uniq"), "* | uniq", "the rows stand for 3 records"),
        (WHOLE, counted(3, query="* | fields"), "* | fields", "the rows stand for 3 records"),
        (WHOLE, counted(3, -1), "* | count() by a", "stands for no number of records"),
        (WHOLE, [*records(1), records(1)[0] | {"line": None}], "*", "one has no line"),
        (WHOLE, [*records(1), records(1)[0] | {"pos": None}], "* | head 2", "one has no pos"),
        (WHOLE, [*records(1), records(1)[0] | {"line": None}], "* | cut a", "one has no line"),
        (WHOLE, [counted(2, query="* | fields")[0] | {"name": None}], "* | fields", "one has no name"),
        (WHOLE, [counted(2)[0] | {"n": None}], "* | count() by a", "one has no n"),
        (WHOLE, counted(2, s0=1), "* | count() by a", "counts fewer records than its group has"),
        (WHOLE, counted(2, s0=None), "* | count()", "counts fewer records than its group has"),
        (WHOLE, counted(2, s0=3), "* | count() by a", "counts more records than its group has"),
        (WHOLE, counted(2, s0=-1), "* | count() by a", "counts fewer records than none"),
        (WHOLE, counted(2, query=COUNT_B, s0=3), COUNT_B, "counts more records than its group has"),
        (WHOLE, counted(2, query=SUM_B, s0_in=2, s0_dn=1), SUM_B, "counts more records than its group has"),
        (WHOLE, counted(2, query=SUM_B, s0_in=2**63 - 1, s0_dn=2**63 - 1), SUM_B, "counts more records"),
        (WHOLE, counted(2, query=SUM_B, s0_in=3, s0_dn=-1), SUM_B, "counts more records than its group has"),
        (WHOLE, counted(2**63 - 1, 2**63 - 1, 4), "* | count() by a", "the rows stand for 18446744073709551618"),
        (replace(WHOLE, seen=frozenset({"never"})), records(2), "*", "fields that nobody asked about"),
    ],
)
def test_an_answer_that_leaves_something_out_does_not(
    report: ChunkReport, rows: list[dict[str, Any]], query: str, why: str
) -> None:
    with pytest.raises(FrameError, match=why):
        check(report, rows, query)


def test_more_lines_than_can_begin_in_a_piece_do_not_match() -> None:
    plan = plan_search(SearchSpec("* | count()", 0, Order.NONE))
    chunk = Chunk(0, CHUNK.pieces[:1])
    for count in (100, 101):
        payloads = RowPayloads()
        answer = AnswerCheck(plan, chunk, ())
        for payload in payloads.of([_arrow.RecordBatch.from_pylist([{"n": count, "s0": count}], part_schema(plan))]):
            answer.rows(payload)
        report = ChunkReport(100, count, pieces=1)
        if count == 100:
            answer.report(report, payloads.sent)
        else:
            with pytest.raises(FrameError, match="so many lines cannot begin in 100 bytes"):
                answer.report(report, payloads.sent)


def test_a_report_of_other_rows_than_came_does_not_add_up() -> None:
    with pytest.raises(FrameError, match="and what came is"):
        check(WHOLE, records(2), sent=NOTHING)
    with pytest.raises(FrameError, match="and what came is"):
        check(replace(WHOLE, matches=0), [], sent=replace(NOTHING, frames=1))


def test_frames_in_another_order_do_not_add_up() -> None:
    payloads = RowPayloads()
    made = [next(payloads.of([_arrow.RecordBatch.from_pylist(rows, plan_schema("*"))])) for rows in (records(1),) * 2]
    other = next(RowPayloads().of([_arrow.RecordBatch.from_pylist(records(3)[2:], plan_schema("*"))]))
    answer = AnswerCheck(plan_search(SearchSpec("*", 0, Order.NONE)), CHUNK, ())
    answer.rows(other)
    answer.rows(made[0])
    with pytest.raises(FrameError, match="and what came is"):
        answer.report(WHOLE, payloads.sent)
