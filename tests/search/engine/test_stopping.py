"""A search that nobody wants any more stops soon, and leaves its database fit for the next."""

# pyright: reportPrivateUsage=false

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.search.engine.chunk_search import ChunkSearcher
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.model import Order, SearchSpec
from tests.search.engine.searched import IN_THIS_PROCESS, MIB, Bench, whole

WAYS = IN_THIS_PROCESS

SLOW = " or ".join(f'=~"(x+[^{number}]*x+)+y{number}"' for number in range(20))
_SOON_S = 5.0


@pytest.fixture
def inside() -> Iterator[ChunkSearcher]:
    """A new one for each test, which looks at its databases or closes it."""
    searcher = ChunkSearcher(at_once=1, memory_limit_bytes=512 * MIB)
    yield searcher
    searcher.close()


def test_a_search_that_was_stopped_before_does_not_begin(bench: Bench) -> None:
    stop = CancelToken()
    stop.cancel()
    piece = whole(bench.write("log.ndjson", {"id": 1}))
    with pytest.raises(WorkCanceledError), bench.searcher.search(SearchSpec("", 0), [piece], stop):
        pass


def test_a_running_query_is_interrupted(bench: Bench) -> None:
    """One query over one file: there is nothing between two queries where it could stop by itself."""
    piece = whole(bench.write("log.ndjson", *({"id": i, "pad": "x" * 900} for i in range(20_000))))
    spec = SearchSpec(SLOW, 0, Order.INPUT, "ts")
    began_s = time.monotonic()
    bench.chunk(spec, [piece])
    whole_s = time.monotonic() - began_s

    stop = CancelToken()
    began = threading.Event()
    ended: list[Exception] = []

    def search() -> None:
        try:
            with bench.searcher.search(spec, [piece], stop) as rows:
                began.set()
                list(rows)
        except WorkCanceledError as error:
            ended.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    began.wait(_SOON_S)
    thread.join(whole_s / 10)  # it is in the middle of it
    stopped_s = time.monotonic()
    while thread.is_alive() and time.monotonic() - stopped_s < 10 * whole_s:
        stop.cancel()
        thread.join(0.005)
    assert ended
    assert time.monotonic() - stopped_s < whole_s / 2
    assert bench.found("| count()", {"id": 1}).rows == [{"count": 1}]


@pytest.mark.parametrize("suffix", ["ndjson.gz", "ndjson.zst"])
def test_unpacking_stops_between_blocks(bench: Bench, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.search.engine.pieces._UNPACKED_BYTES", 1000)
    monkeypatch.setattr("quarterdeck.search.engine.groups._SMALL_BYTES", 0)
    path = bench.write(f"log.{suffix}", *({"id": i} for i in range(2000)))
    stop = CancelToken()
    with bench.searcher.search(SearchSpec("| count()", 0), [whole(path)], stop) as rows:
        stop.cancel()
        with pytest.raises(WorkCanceledError):
            list(rows)


def test_putting_together_is_interrupted(bench: Bench) -> None:
    spec = SearchSpec("| sort id", 0, Order.TIME, "ts")
    batches, _ = bench.chunk(spec, [whole(bench.write("log.ndjson", *({"id": i} for i in range(20_000))))])
    gathering = Gathering(spec, bench.spool, memory_bytes=256 * MIB, disk_bytes=MIB, disk=bench.disk)
    list(gathering.add(0, batches))
    stop = CancelToken()
    parts: Any = gathering.finish(stop)
    next(parts)
    stop.cancel()
    with pytest.raises(WorkCanceledError):
        list(parts)
    gathering.close()
    assert list(bench.spool.iterdir()) == []


def test_rows_that_are_not_read_to_their_end_leave_nothing_behind(bench: Bench) -> None:
    pieces = [whole(bench.write(f"{i}.ndjson.gz", *({"id": n} for n in range(100)))) for i in range(3)]
    with bench.searcher.search(SearchSpec("", 0, Order.INPUT, "ts"), pieces, CancelToken()) as rows:
        next(iter(rows))
    assert bench.search("| count()", [pieces]).rows == [{"count": 300}]


def test_databases_are_kept_for_the_next_search(bench: Bench, inside: ChunkSearcher) -> None:
    inside.warm_up()
    before = inside._databases._idle[0]
    for _ in range(3):
        bench.found("| count()", {"id": 1})
    assert inside._databases._idle == [before]


def test_many_threads_search_at_once(bench: Bench, inside: ChunkSearcher) -> None:
    pieces = [whole(bench.write("log.ndjson", *({"id": i, "host": f"h{i % 3}"} for i in range(1000))))]
    answers: list[Any] = []

    def search() -> None:
        for query in ("| count() by host", "id<10"):
            batches, report = bench.chunk(SearchSpec(query, 0, Order.INPUT, "ts"), pieces)
            answers.append((sum(batch.num_rows for batch in batches), report.matches))

    threads = [threading.Thread(target=search) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [(3, 1000)] * 6 + [(10, 10)] * 6
    assert len(inside._databases._idle) == 1


def test_a_closed_searcher_searches_no_more(bench: Bench, inside: ChunkSearcher) -> None:
    inside.close()
    with pytest.raises(RuntimeError):
        bench.found("", {"id": 1})
