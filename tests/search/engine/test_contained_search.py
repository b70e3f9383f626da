"""Searches in processes of their own: whatever happens in one costs its chunk, and nobody else."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.engines.engine_died import EngineDiedError
from quarterdeck.search.engine.chunk_search import ChunkSearcher
from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.language.errors import SearchSyntaxError
from quarterdeck.search.model import ChunkReport, FileKind, Order, Piece, SearchSpec
from quarterdeck.search.root.sampling import FieldSampling
from quarterdeck.stores.objects import ObjectStores
from tests.engines.idle_processes import one_host_of, only_its_host
from tests.search.engine import odd_engine
from tests.search.engine.searched import MIB, Bench, insist_adds_up, part, whole
from tests.search.engine.test_hostile_names import HOSTILE, HOSTILE_FILES, backquoted, quoted
from tests.search.engine.test_stages import LOG

SLOW = " or ".join(f'=~"(x+[^{number}]*x+)+y{number}"' for number in range(20))
_SOON_S = 60.0


EACH_STAGE = (
    "",
    "n>=3 host=b",
    "| head 3",
    "| tail 3",
    "| sort host, n desc",
    "| sort n | head 4",
    "| sort m | tail 2 | cut id",
    "| cut m, host",
    "| uniq",
    "| cut host | uniq -c",
    "| count(), count(m), sum(n), avg(n), min(m), max(m)",
    "| count() as c, max(m) by host, n | sort c desc",
    "| fields",
    "| head 4 | fields | sort -r count",
)


@pytest.fixture(scope="module")
def one_host() -> Iterator[ContainedSearcher]:
    searcher = ContainedSearcher(at_once=2, memory_limit_bytes=64 * MIB, engine=odd_engine.ENGINE, patience_s=0.2)
    with one_host_of(searcher):
        yield searcher


@pytest.fixture
def odd(one_host: ContainedSearcher) -> Iterator[ContainedSearcher]:
    with only_its_host(one_host):
        yield one_host


@pytest.fixture
def odd_bench(tmp_path: Path, odd: ContainedSearcher) -> Bench:
    return Bench(tmp_path, odd)


def spec(query: str) -> SearchSpec:
    return SearchSpec(query, 0, Order.INPUT, "ts")


def check_that_it_works(odd_bench: Bench) -> None:
    assert odd_bench.found("| count()", {"id": 1}).rows == [{"count": 1}]


def test_a_crash_costs_its_chunk_and_names_what_happened(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1})
    with pytest.raises(EngineDiedError, match="SIGSEGV") as caught:
        odd_bench.chunk(spec(odd_engine.CRASH), [whole(path)])
    assert caught.value.retryable
    check_that_it_works(odd_bench)


def test_a_crash_beside_another_search_leaves_that_alone(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", *({"id": number, "pad": "x" * 500} for number in range(2000)))
    with odd_bench.searcher.search(spec(""), [whole(path)], CancelToken()) as rows:
        with pytest.raises(EngineDiedError):
            odd_bench.chunk(spec(odd_engine.CRASH), [whole(path)])
        assert sum(batch.num_rows for batch in rows) == 2000
        assert rows.report.matches == 2000


def test_an_engine_that_does_not_stop_loses_its_process(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1})
    stop, ended = CancelToken(), list[Exception]()

    def search() -> None:
        try:
            with odd_bench.searcher.search(spec(odd_engine.DEAF), [whole(path)], stop) as rows:
                list(rows)
        except QuarterdeckError as error:
            ended.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    stop.cancel()  # once: whoever waits for the answer says it again
    thread.join(_SOON_S)
    assert [type(error) for error in ended] == [WorkCanceledError]
    check_that_it_works(odd_bench)


def test_a_slow_search_is_interrupted_and_keeps_its_process(odd_bench: Bench, odd: ContainedSearcher) -> None:
    check_that_it_works(odd_bench)
    before = odd.processes
    path = odd_bench.write("log.ndjson", *({"id": i, "pad": "x" * 900} for i in range(2_000)))
    stop = CancelToken()
    with odd_bench.searcher.search(spec(SLOW), [whole(path)], stop) as rows:
        stop.cancel()
        with pytest.raises(WorkCanceledError):
            list(rows)
    if odd.processes == before:  # on a busy machine it may have been too slow to stop
        check_that_it_works(odd_bench)


def test_a_search_that_takes_too_much_memory_is_refused_by_name(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1})
    with pytest.raises(QuarterdeckError, match="memory") as caught:
        odd_bench.chunk(spec(odd_engine.GROW), [whole(path)])
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not caught.value.retryable
    check_that_it_works(odd_bench)


@pytest.mark.parametrize("lie", [odd_engine.LIE, odd_engine.STRANGE])
def test_an_answer_that_makes_no_sense_ends_its_process(odd_bench: Bench, odd: ContainedSearcher, lie: str) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1})
    with pytest.raises(EngineDiedError, match="makes no sense"):
        odd_bench.chunk(spec(lie), [whole(path)])
    assert odd.processes == []
    check_that_it_works(odd_bench)


def test_lines_that_were_read_already_go_with_the_question(odd_bench: Bench) -> None:
    paths = [odd_bench.write(f"{name}.ndjson", *({"id": name, "pad": "x" * 700} for _ in range(400))) for name in "abc"]
    pieces = [whole(path, in_memory=name != "b") for path, name in zip(paths, "abc", strict=True)]
    answer = odd_bench.search("| count() by id | sort id", [pieces])
    assert answer.rows == [{"id": name, "count": 400} for name in "abc"]


def test_a_report_is_the_same_as_in_this_process(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1}, "no record", {"id": 2, "level": "warn"})
    broken = odd_bench.folder / "broken.ndjson.gz"
    broken.write_bytes(b"\x1f\x8b nothing of the kind")
    pieces = [whole(path), whole(broken)]
    with odd_bench.searcher.search(spec("id=2"), pieces, CancelToken(), ask_about={"level", "nobody"}) as rows:
        batches = list(rows)
        report = rows.report
        assert rows.scanned_bytes == report.scanned_bytes == path.stat().st_size
    assert isinstance(report, ChunkReport)
    assert (report.matches, report.seen, report.pieces) == (1, frozenset({"level"}), 1)
    assert {problem.url: problem.lines for problem in report.problems} == {str(path): 1, str(broken): 0}
    insist_adds_up(spec("id=2"), [piece.piece for piece in pieces], {"level", "nobody"}, batches, report)


def test_each_stage_says_the_same_as_in_this_process(odd_bench: Bench) -> None:
    searcher = ChunkSearcher(at_once=1, memory_limit_bytes=64 * MIB)
    bench = Bench(odd_bench.folder, searcher)
    chunks = [[whole(bench.write(f"{n}.ndjson{suffix}", *LOG[n : n + 4]))] for n, suffix in ((0, ""), (4, ".gz"))]
    for query in EACH_STAGE:
        for order in (Order.INPUT, Order.TIME):
            contained, inside = (each.search(query, chunks, order=order) for each in (odd_bench, bench))
            assert contained == inside, query
            assert contained.lines, query
    searcher.close()


def test_no_text_becomes_anything_but_itself_on_the_way(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", *({"v": text, text: 5} for text in HOSTILE), {"v": "other"})
    for text in HOSTILE:
        answer = odd_bench.search(f"v={quoted(text)} | cut v", [[whole(path)]], ask_about=[text])
        assert (answer.rows, answer.seen) == ([{"v": text}], {text})
        if (field := backquoted(text)) is not None:
            row = {"v": text, text: 5}
            assert odd_bench.search(f"{field}=5 | cut v, {field}", [[whole(path)]]).rows == [row]


def test_no_name_of_a_file_becomes_anything_but_itself_on_the_way(odd_bench: Bench) -> None:
    chunk = [whole(odd_bench.write(name, {"id": number}, "bad")) for number, name in enumerate(HOSTILE_FILES)]
    answer = odd_bench.search("", [chunk])
    assert [row["id"] for row in answer.rows] == list(range(len(chunk)))
    assert [(problem.url, problem.lines) for problem in answer.problems] == [(each.piece.url, 1) for each in chunk]


def test_what_is_no_search_is_told_with_its_place(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1})
    with pytest.raises(SearchSyntaxError):
        odd_bench.chunk(spec("level= | count()"), [part(path, 0, 5)])


def test_how_far_it_is_is_told_while_no_rows_come(odd_bench: Bench) -> None:
    path = odd_bench.write("log.ndjson", {"id": 1}, {"id": 2})
    size_bytes = path.stat().st_size
    with odd_bench.searcher.search(spec(odd_engine.WAIT), [whole(path)], CancelToken()) as rows:
        reading = threading.Thread(target=lambda: list(rows))
        reading.start()
        try:
            wait_for(lambda: rows.scanned_bytes == size_bytes // 2)
        finally:
            path.unlink()
            reading.join(_SOON_S)
        assert rows.scanned_bytes == size_bytes


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _SOON_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


# Samples


def test_a_sample_that_ends_its_engine_costs_that_sample(odd: ContainedSearcher, tmp_path: Path) -> None:
    paths = [tmp_path / "fine.ndjson", tmp_path / f"{odd_engine.CRASH}.ndjson"]
    for path in paths:
        path.write_text('{"ts": 1, "level": "info"}\n')
    pieces = [Piece(str(path), FileKind.NDJSON, path.stat().st_size, "", 0, path.stat().st_size) for path in paths]
    with pytest.raises(EngineDiedError):
        odd.probe(OpenPiece(pieces[1], paths[1], None), CancelToken())

    async def sampled() -> list[frozenset[str]]:
        sampling = FieldSampling(ObjectStores(), odd.probe)
        return [await sampling.fields_of(piece) for piece in pieces]

    assert asyncio.run(sampled()) == [frozenset({"ts", "level"}), frozenset()]


# Processes


def test_processes_are_forked_from_one_that_has_a_single_thread(odd: ContainedSearcher) -> None:
    odd.warm_up()
    assert odd.host_pid is not None
    assert len(list(Path(f"/proc/{odd.host_pid}/task").iterdir())) == 1


def test_whoever_asks_loads_no_duckdb() -> None:
    code = "import sys, quarterdeck.search.on_worker, quarterdeck.search.engine.contained_search as _\n"
    code += "sys.exit('duckdb' in sys.modules or 'llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
