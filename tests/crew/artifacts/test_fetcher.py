"""What a coordinator gets from a worker, and why not."""

import asyncio
import ssl as tls
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
import xxhash

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.model import Artifact, AttemptId
from quarterdeck.crew.artifacts import parquet
from quarterdeck.crew.artifacts.failures import CODES, FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.fetcher import ArtifactFetcher
from quarterdeck.crew.artifacts.format import Stamp
from quarterdeck.crew.ports import Fetcher, FetchFailedError
from quarterdeck.http.client import Origin
from quarterdeck.stores.disk import DiskFullError, GrowingFile
from tests.crew.artifacts.harness import (
    SCHEMA,
    WORKER,
    Depot,
    Office,
    attempt_id,
    budget_in,
    files_in,
    looped,
    noise,
    office,
    pa,
    peer,
    rows,
    says,
    until,
    whole,
)
from tests.crew.artifacts.test_writer import pq
from tests.ports import dead_port

SERVER, CLIENT = tls.PROTOCOL_TLS_SERVER, tls.PROTOCOL_TLS_CLIENT
MISMATCHES: dict[FetchFailure, dict[str, Any]] = {
    FetchFailure.SIZE_MISMATCH: {"size_bytes": 123},
    FetchFailure.CHECKSUM_MISMATCH: {"checksum": "xxh3_128:" + "0" * 32},
    FetchFailure.ROW_COUNT_MISMATCH: {"row_count": 4},
    FetchFailure.MIN_TS_MISMATCH: {"min_ts": 1},
    FetchFailure.MAX_TS_MISMATCH: {"max_ts": 3},
}


def sesame(_: Origin) -> str:
    return "Bearer sesame"


def _announced(data: bytes, url: str, **others: Any) -> Artifact:
    """Of any bytes, what a worker would announce."""
    checksum = f"xxh3_128:{xxhash.xxh3_128_hexdigest(data)}"
    return replace(Artifact(url, len(data), checksum, 0, 0, 0, 1), **others)


@pytest.fixture(params=[2**20, 16], ids=["memory", "disk"])
def limit_bytes(request: pytest.FixtureRequest) -> int:
    """Each test of what is received runs for both places where it may go."""
    return request.param


def _is_the_port(fetcher: ArtifactFetcher) -> Fetcher[FetchedArtifact]:
    """For the type checker: what the coordinator's driver asks for."""
    return fetcher


# What is right


@looped
async def test_an_artifact_comes_whole_and_is_gone_when_released(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        artifact = depot.make(rows(0, 3), rows(10, 3))
        result = await here.fetch(artifact)
        assert result.metadata == artifact
        assert (result.data is None) == (limit_bytes == 16) == (result.path is not None)
        for _ in range(2):
            batches = list(result.read_batches())
            assert pa.Table.from_batches(batches).column("ts").to_pylist() == [0, 1, 2, 10, 11, 12]
        if result.path is not None:
            assert here.budget.figures().artifact_bytes >= artifact.size_bytes
            assert len(files_in(here.folder)) == 1
        result.release()
        result.release()
        assert here.is_clean()
        with pytest.raises(RuntimeError, match="released"):
            result.read_batches()
        assert _is_the_port(here.fetcher).discard(result) is None
        assert here.fetcher.counters == {"fetched": 1, "bytes": artifact.size_bytes}


@looped
async def test_an_artifact_without_rows_has_no_batches(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        result = await here.fetch(depot.make())
        assert [batch.num_rows for batch in result.read_batches()] in ([], [0])
        result.release()


@looped
async def test_what_is_being_read_can_be_released(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path) as here:
        result = await here.fetch(depot.make(*[rows(at, 100_000, "x" * 20) for at in range(0, 500_000, 100_000)]))
        batches = result.read_batches()
        first = next(batches)
        result.release()
        assert first.num_rows + sum(batch.num_rows for batch in batches) == 500_000
        assert here.is_clean()


@looped
async def test_a_result_that_nobody_needs_is_deleted(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        here.fetcher.discard(await here.fetch(depot.make(rows(0, 3))))
        await until(here.is_clean)


@looped
async def test_closing_waits_for_what_is_being_deleted(tmp_path: Path) -> None:
    may_end = threading.Event()
    async with office(tmp_path) as here:
        deleted: list[bool] = []
        result = FetchedArtifact(Depot(tmp_path).make(), None, tmp_path, None, lambda: deleted.append(may_end.wait(60)))
        here.fetcher.discard(result)
        closing = asyncio.create_task(here.fetcher.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        may_end.set()
        await closing
        assert deleted == [True]


@looped
async def test_a_start_removes_what_an_earlier_process_left(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving():
        async with office(tmp_path, memory_limit_bytes=16) as here:
            await here.fetch(depot.make(rows(0, 3)))
        assert len(files_in(here.folder)) == 1
        async with office(tmp_path):
            assert files_in(here.folder) == []


@looped
async def test_whoever_wants_to_know_is_told_when_a_fetch_begins(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    begun: list[AttemptId] = []
    async with depot.serving(), office(tmp_path, on_begin=begun.append) as here:
        await here.fetch(depot.make(rows(0, 3)))
    assert begun == [attempt_id()]


@looped
async def test_the_token_is_sent_and_nothing_is_asked_to_be_compressed(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    data = depot.content(artifact)
    async with peer(whole(data)) as there, office(tmp_path, authorize=sesame) as here:
        await here.fetch(replace(artifact, url=there.url))
        assert "Authorization: Bearer sesame\r\n" in there.heads[0]
        assert "Accept-Encoding: identity\r\n" in there.heads[0]
        assert "Range" not in there.heads[0]


@looped
async def test_a_fetcher_that_is_not_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not started"):
        await Office(tmp_path).fetch(Depot(tmp_path).make())


@looped
async def test_tls_is_spoken_with_who_has_a_certificate_and_nobody_else(tmp_path: Path) -> None:
    trusted: Any = trustme.CA()
    stranger: Any = trustme.CA()
    server, client, suspicious = (tls.SSLContext(side) for side in (SERVER, CLIENT, CLIENT))
    trusted.issue_cert("127.0.0.1").configure_cert(server)
    trusted.configure_trust(client)
    stranger.configure_trust(suspicious)
    depot = Depot(tmp_path)
    async with depot.serving(ssl=server):
        artifact = depot.make(noise(megabytes=1))
        assert artifact.url.startswith("https://")
        async with office(tmp_path, ssl=client) as here:
            (await here.fetch(artifact)).release()
            assert here.is_clean()
        async with office(tmp_path, ssl=suspicious) as here:
            error = await here.failure(artifact)
            assert "certificate" in error.message
            assert here.fetcher.counters["unreachable"] == 1


# What is not what was announced


@pytest.mark.parametrize("failure", MISMATCHES)
@looped
async def test_each_field_that_was_announced_wrongly_is_found(
    tmp_path: Path, limit_bytes: int, failure: FetchFailure
) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        artifact = depot.make(rows(0, 3))
        error = await here.failure(replace(artifact, **MISMATCHES[failure]))
        assert here.fetcher.counters[failure] == 1
        assert (error.code, error.retryable) == (ErrorCode.PROTOCOL, True)
        assert all(part in error.message for part in (WORKER, artifact.url, "w1#1"))
        assert here.is_clean()
        result = await here.fetch(artifact)  # and the next one is fine
        result.release()


@looped
async def test_an_unknown_schema_version_is_final_and_nothing_is_asked_for(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with peer(says("500 No")) as there, office(tmp_path) as here:
        error = await here.failure(replace(depot.make(rows(0, 3)), url=there.url, parquet_schema_version=2))
        assert (error.code, error.retryable) == (ErrorCode.PROTOCOL, False)
        assert "schema version 2" in error.message
        assert "1" in error.message
        assert there.heads == []
        assert here.fetcher.counters == {"unknown_schema_version": 1}


def _parquet(metadata: dict[str, str]) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA) as writer:
        writer.add_key_value_metadata(metadata)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "data, failure",
    [
        (_parquet(Stamp(0, 0, 0, schema_version=7).encoded()), FetchFailure.SCHEMA_VERSION_MISMATCH),
        (_parquet({}), FetchFailure.NOT_AN_ARTIFACT),
        (_parquet(Stamp(0, 0, 0).encoded() | {"quarterdeck.min_ts": "?"}), FetchFailure.NOT_AN_ARTIFACT),
        (b"PAR1 this is no Parquet file, though it looks like one \x08\0\0\0PAR1", FetchFailure.NOT_AN_ARTIFACT),
        (b"<html>this is not even that</html>", FetchFailure.NOT_AN_ARTIFACT),
        (b"PAR1" + b"\xff" * 40 + b"\x20\0\0\0PAR1", FetchFailure.NOT_AN_ARTIFACT),
        (b"tiny \xff\xff\xff\x7fPAR1 no footer is so large", FetchFailure.NOT_AN_ARTIFACT),
        (b"x" * 30 + b"\xff\xff\xff\x7fPAR1", FetchFailure.NOT_AN_ARTIFACT),
    ],
)
@looped
async def test_what_is_no_artifact_is_found_although_its_checksum_is_right(
    tmp_path: Path, limit_bytes: int, data: bytes, failure: FetchFailure
) -> None:
    async with peer(whole(data)) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        error = await here.failure(_announced(data, there.url))
        assert here.fetcher.counters[failure] == 1, error
        assert (error.code, error.retryable) == (ErrorCode.PROTOCOL, True)
        assert here.is_clean()


@looped
async def test_a_stamp_that_is_written_in_another_way_is_read_too(tmp_path: Path, limit_bytes: int) -> None:
    data = _parquet(Stamp(0, 0, 5).encoded() | {"quarterdeck.max_ts": " +5"})
    assert Stamp.glimpsed(data) is None
    async with peer(whole(data)) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        (await here.fetch(_announced(data, there.url, max_ts=5))).release()
        error = await here.failure(_announced(data, there.url, max_ts=6))
        assert "max_ts is 5, announced was 6" in error.message


@looped
async def test_a_stamp_that_lies_about_the_rows_is_found_before_the_first_is_read(
    tmp_path: Path, limit_bytes: int
) -> None:
    data = _parquet(Stamp(3, 0, 0).encoded())
    async with peer(whole(data)) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        announced = _announced(data, there.url, row_count=3)
        if limit_bytes == 16:
            await here.failure(announced)
            assert here.fetcher.counters["row_count_mismatch"] == 1
            return
        result = await here.fetch(announced)
        with pytest.raises(QuarterdeckError, match="0 rows, its stamp says 3") as caught:
            result.read_batches()
        assert caught.value.code is ErrorCode.PROTOCOL


@looped
async def test_one_wrong_byte_is_found(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    data = bytearray(depot.content(artifact))
    data[len(data) // 3] ^= 1
    async with peer(whole(bytes(data))) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        error = await here.failure(replace(artifact, url=there.url))
        assert here.fetcher.counters["checksum_mismatch"] == 1
        assert artifact.checksum in error.message
        assert here.is_clean()


@looped
async def test_a_size_that_does_not_fit_is_refused_before_the_bytes_come(tmp_path: Path) -> None:
    async def endless(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        await asyncio.Event().wait()

    async with peer(endless) as there, office(tmp_path) as here:
        error = await here.failure(_announced(b"x" * 100, there.url))
        assert "1000000 bytes" in error.message
        assert here.fetcher.counters == {"size_mismatch": 1, "bytes": 0}
        assert here.is_clean()


@looped
async def test_more_bytes_than_announced_are_cut_off_at_once(tmp_path: Path, limit_bytes: int) -> None:
    sent = 0

    async def flood(head: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            sent += 10_000
            await writer.drain()

    async with peer(flood) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        error = await here.failure(_announced(b"x" * 25_000, there.url))
        assert "more bytes" in error.message
        assert here.fetcher.counters["size_mismatch"] == 1
        assert here.fetcher.counters["bytes"] <= 25_000
        assert here.is_clean()


# What does not come


@pytest.mark.parametrize(
    "status, failure",
    [
        ("404 Not Found", FetchFailure.NOT_FOUND),
        ("410 Gone", FetchFailure.NOT_FOUND),
        ("401 Unauthorized", FetchFailure.BAD_STATUS),
        ("500 Internal Server Error", FetchFailure.BAD_STATUS),
        ("503 Service Unavailable", FetchFailure.BAD_STATUS),
        ("204 No Content", FetchFailure.BAD_STATUS),
        ("206 Partial Content", FetchFailure.BAD_STATUS),
    ],
)
@looped
async def test_any_other_answer_is_a_failure_that_says_what_it_was(
    tmp_path: Path, status: str, failure: FetchFailure
) -> None:
    async with peer(says(status, "Content-Length: 0\r\n")) as there, office(tmp_path) as here:
        error = await here.failure(_announced(b"x", there.url))
        assert status.split(maxsplit=1)[0] in error.message
        assert (error.code, error.retryable) == (CODES[failure], True)
        assert here.fetcher.counters[failure] == 1
        assert len(there.heads) == 1
        assert here.is_clean()


@looped
async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path) as here:
        artifact = depot.make(rows(0, 3))
        async with peer(says("302 Found", f"Location: {artifact.url}\r\nContent-Length: 0\r\n")) as there:
            error = await here.failure(replace(artifact, url=there.url))
        assert "302" in error.message
        assert depot.route.sent_bytes == 0


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "unix:/run/x",
        "/artifacts/x",
        "",
        "http://",
        "http:///x",
        "http://user:word@127.0.0.1/x",
        "http://[::1/x",
        "http://127.0.0.1:99999/x",
        "http://127.0.0.1:port/x",
        "javascript:x",
    ],
)
@looped
async def test_an_address_that_is_no_plain_http_is_refused(tmp_path: Path, url: str) -> None:
    async with office(tmp_path) as here:
        error = await here.failure(_announced(b"x", url))
        assert here.fetcher.counters == {"refused_url": 1}
        assert (error.code, error.retryable) == (ErrorCode.PROTOCOL, True)


@looped
async def test_an_address_cannot_smuggle_words_into_the_request(tmp_path: Path) -> None:
    async with (
        peer(says("404 Gone", "Content-Length: 0\r\n")) as there,
        office(tmp_path, authorize=sesame) as here,
    ):
        for evil in ("x HTTP/1.1\r\nEvil: 1\r\n\r\n", "x\nEvil: 1", "x\0", "x y"):
            await here.failure(_announced(b"x", there.url + evil))
        for head in there.heads:
            assert head.splitlines()[0].endswith(" HTTP/1.1")
            assert "\nEvil" not in head
            assert head.count("\r\n\r\n") == 1


@looped
async def test_a_worker_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with dead_port() as port:
        async with office(tmp_path) as here:
            error = await here.failure(_announced(b"x", f"http://127.0.0.1:{port}/artifacts/x"))
            assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
            assert here.fetcher.counters["unreachable"] == 1
            assert here.is_clean()


@looped
async def test_something_that_speaks_no_http_is_a_failure(tmp_path: Path) -> None:
    async def babble(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n" * 3)

    async with peer(babble) as there, office(tmp_path) as here:
        error = await here.failure(_announced(b"x", there.url))
        assert here.fetcher.counters["broken"] == 1
        assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
        assert here.is_clean()


@pytest.mark.parametrize("body", [b"", b"some bytes"])
@looped
async def test_a_worker_that_falls_silent_is_given_up_after_the_stall_timeout(
    tmp_path: Path, limit_bytes: int, body: bytes
) -> None:
    async def stall(head: str, writer: asyncio.StreamWriter) -> None:
        if body:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + body)
        await asyncio.Event().wait()

    async with (
        peer(stall) as there,
        office(tmp_path, stall_timeout_s=0.05, memory_limit_bytes=limit_bytes) as here,
    ):
        error = await here.failure(_announced(b"x" * 100, there.url))
        assert "nothing came for 0.05 s" in error.message
        assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
        assert here.fetcher.counters["timeout"] == 1
        assert here.fetcher.counters["resumed"] == 0
        assert here.is_clean()


@looped
async def test_a_worker_that_is_slow_without_end_is_given_up_after_the_whole_timeout(
    tmp_path: Path, limit_bytes: int
) -> None:
    async def drip(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with peer(drip) as there, office(tmp_path, timeout_s=0.1, memory_limit_bytes=limit_bytes) as here:
        error = await here.failure(_announced(b"x" * 100_000, there.url))
        assert "longer than 0.1 s" in error.message
        assert here.fetcher.counters["timeout"] == 1
        assert here.is_clean()


@looped
async def test_what_comes_slowly_but_in_time_is_fine(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    data = depot.content(artifact)

    async def drip(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode())
        for at in range(0, len(data), 50):
            writer.write(data[at : at + 50])
            await writer.drain()
            await asyncio.sleep(0.001)

    async with peer(drip) as there, office(tmp_path, memory_limit_bytes=limit_bytes) as here:
        (await here.fetch(replace(artifact, url=there.url))).release()
        assert here.is_clean()


@looped
async def test_without_room_on_the_disk_nothing_is_asked_for(tmp_path: Path) -> None:
    data = b"x" * 500_000
    async with peer(whole(data)) as there, office(tmp_path, limit_bytes=400_000) as here:
        error = await here.failure(_announced(data, there.url))
        assert (error.code, error.retryable) == (ErrorCode.RESOURCE_EXHAUSTED, True)
        assert here.fetcher.counters["disk_full"] == 1
        assert there.heads == []
        assert here.is_clean()


@looped
async def test_a_spool_that_others_fill_is_waited_for(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, limit_bytes=3_000_000) as here:
        first = await here.fetch(depot.make(noise(megabytes=2), attempt=attempt_id(1)))
        waiting = asyncio.create_task(here.fetch(depot.make(noise(megabytes=2), attempt=attempt_id(2))))
        await asyncio.wait((waiting,), timeout=0.3)
        assert not waiting.done()
        first.release()
        (await waiting).release()
        assert here.fetcher.counters["disk_full"] == 0
        assert here.is_clean()


@looped
async def test_a_result_is_fetched_only_from_where_its_worker_registered(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), peer() as elsewhere:
        artifact = depot.make(rows(0, 3))
        known = artifact.url.partition("/artifacts/")[0]

        def address_of(worker_id: WorkerId) -> str:
            return known

        async with office(tmp_path, address_of=address_of) as here:
            (await here.fetch(artifact)).release()
            error = await here.failure(replace(artifact, url=elsewhere.url))
            assert f"registered with {known}" in error.message
            assert here.fetcher.counters["refused_url"] == 1
            assert elsewhere.heads == []


@looped
async def test_from_a_worker_that_registered_with_no_address_nothing_is_fetched(tmp_path: Path) -> None:
    depot = Depot(tmp_path)

    def address_of(worker_id: WorkerId) -> str:
        return "somewhere over the network"

    async with depot.serving(), office(tmp_path, address_of=address_of) as here:
        error = await here.failure(depot.make(rows(0, 3)))
        assert "not a plain http or https address" in error.message
        assert here.fetcher.counters["refused_url"] == 1
        assert depot.route.sent_bytes == 0


@pytest.mark.parametrize("address", [None, ""])
@looped
async def test_from_a_worker_that_is_not_registered_nothing_is_fetched(tmp_path: Path, address: str | None) -> None:
    def address_of(worker_id: WorkerId) -> str | None:
        return address

    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, address_of=address_of, authorize=sesame) as here:
        error = await here.failure(depot.make(rows(0, 3)))
        assert "its worker is not registered, or with no address" in error.message
        assert here.fetcher.counters["refused_url"] == 1
        assert depot.route.sent_bytes == 0


@looped
async def test_a_fetcher_that_was_told_of_no_workers_fetches_nothing(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    fetcher = ArtifactFetcher(tmp_path / "here", budget_in(tmp_path), timeout_s=9, stall_timeout_s=9, at_once=4)
    await fetcher.start()
    async with depot.serving():
        with pytest.raises(FetchFailedError, match="not registered"):
            await fetcher.fetch(WORKER, attempt_id(), depot.make(rows(0, 3)))
    await fetcher.close()


@looped
async def test_with_tls_nothing_is_fetched_without_it(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, ssl=tls.create_default_context()) as here:
        error = await here.failure(depot.make(rows(0, 3)))
        assert "not encrypted" in error.message


@pytest.mark.parametrize("memory_limit_bytes", [0, 10**9])
@looped
async def test_a_page_that_would_take_more_memory_than_may_be_is_an_error_of_the_protocol(
    tmp_path: Path, memory_limit_bytes: int
) -> None:
    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path, memory_limit_bytes=memory_limit_bytes) as here:
        result = await here.fetch(depot.make(noise(megabytes=1)))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(parquet, "_PAGE_BYTES", 100_000)
            with pytest.raises(QuarterdeckError, match="a page that takes") as raised:
                list(result.read_batches())
        assert raised.value.code is ErrorCode.PROTOCOL
        assert sum(batch.num_rows for batch in result.read_batches()) == 1024
        result.release()


@looped
async def test_rows_that_unfold_to_much_more_than_their_file_come_in_small_batches(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    async with depot.serving():
        artifact = depot.make(pa.record_batch({"text": ["x" * 1_000_000] * 200}), ts_column=None)
        data = depot.content(artifact)
    assert artifact.size_bytes < 100_000
    batches = list(FetchedArtifact(artifact, data, None).read_batches())
    assert sum(batch.num_rows for batch in batches) == 200
    assert max(batch.nbytes for batch in batches) < 80_000_000


def test_lists_of_texts_come_in_small_batches(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(pa.record_batch({"texts": [["x" * 1000] * 100] * 200}), ts_column=None)
    assert artifact.size_bytes < 10_000
    batches = list(FetchedArtifact(artifact, depot.content(artifact), None).read_batches())
    assert [batch.num_rows for batch in batches] == [64, 64, 64, 8]


def test_rows_that_cannot_unfold_to_much_are_read_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered: list[object] = []
    monkeypatch.setattr(parquet, "_gathered", gathered.append)
    depot = Depot(tmp_path)
    artifact = depot.make(pa.record_batch({"text": ["some", "words"] * 10_000}), ts_column=None)
    (batch,) = FetchedArtifact(artifact, depot.content(artifact), None).read_batches()
    assert (batch.num_rows, gathered) == (20_000, [])


@looped
async def test_a_disk_that_fills_in_the_middle_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = GrowingFile.write

    def write_on_a_disk_that_others_fill(file: GrowingFile, data: bytes) -> int:
        if file.size_bytes > 1_000_000:
            file.abandon()
            raise DiskFullError(ErrorCode.RESOURCE_EXHAUSTED, "it was not written", "the disk is full", "free some")
        return write(file, data)

    depot = Depot(tmp_path)
    async with depot.serving(), office(tmp_path) as here:
        artifact = depot.make(noise(megabytes=3))
        monkeypatch.setattr(GrowingFile, "write", write_on_a_disk_that_others_fill)
        error = await here.failure(artifact)
        assert (error.code, error.retryable) == (ErrorCode.RESOURCE_EXHAUSTED, True)
        assert "the disk is full" in error.message
        assert here.fetcher.counters["disk_full"] == 1
        assert here.fetcher.counters["bytes"] > 1_000_000
        assert here.is_clean()


# What breaks off


def _cut_at(data: bytes, *cuts: int) -> Any:
    """Answers each request with the bytes asked for, up to the next cut; after the last, to the end."""
    left = list(cuts)

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        start = int(head.partition("Range: bytes=")[2].partition("-")[0] or 0)
        end = left.pop(0) if left else len(data)
        status = (
            f"206 Partial Content\r\nContent-Range: bytes {start}-{len(data) - 1}/{len(data)}" if start else "200 OK"
        )
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(data) - start}\r\n\r\n".encode() + data[start:end])
        await writer.drain()

    return answer


@looped
async def test_a_transfer_that_breaks_off_is_taken_up_where_it_broke(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    data = depot.content(artifact)
    async with (
        peer(_cut_at(data, 100, 300)) as there,
        office(tmp_path, memory_limit_bytes=limit_bytes) as here,
    ):
        result = await here.fetch(replace(artifact, url=there.url))
        assert sum(batch.num_rows for batch in result.read_batches()) == 3
        result.release()
        assert ["Range: bytes=100-" in there.heads[1], "Range: bytes=300-" in there.heads[2]] == [True, True]
        assert here.fetcher.counters == {"resumed": 2, "fetched": 1, "bytes": len(data)}
        assert here.is_clean()


@looped
async def test_a_connection_that_is_closed_without_an_answer_is_made_again(tmp_path: Path) -> None:
    async def hang_up(head: str, writer: asyncio.StreamWriter) -> None:
        pass

    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    async with peer(hang_up, whole(depot.content(artifact))) as there, office(tmp_path) as here:
        await here.fetch(replace(artifact, url=there.url))
        assert len(there.heads) == 2
        assert "Range" not in there.heads[1]


@looped
async def test_a_transfer_that_breaks_off_again_and_again_is_given_up(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    data = depot.content(artifact)
    async with (
        peer(_cut_at(data, 100, 200, 300)) as there,
        office(tmp_path, memory_limit_bytes=limit_bytes) as here,
    ):
        error = await here.failure(replace(artifact, url=there.url))
        assert "after 300 bytes" in error.message
        assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
        assert here.fetcher.counters == {"resumed": 2, "broken": 1, "bytes": 300}
        assert here.is_clean()


@looped
async def test_an_end_that_comes_too_early_without_a_length_is_a_break_too(tmp_path: Path) -> None:
    async with peer(says("200 OK", "Connection: close\r\n", b"x" * 50)) as there, office(tmp_path) as here:
        error = await here.failure(_announced(b"x" * 100, there.url))
        assert here.fetcher.counters["resumed"] == 1  # the answer to that is the whole again
        assert "200" in error.message
        assert here.fetcher.counters["bad_status"] == 1


@looped
async def test_the_rest_of_something_else_is_refused(tmp_path: Path) -> None:
    first = says("200 OK", "Content-Length: 100\r\n", b"x" * 50)
    for wrong in ("bytes 50-119/120", "bytes 40-99/100", "pieces 1-2/3", ""):
        headers = "Content-Length: 50\r\n" + (f"Content-Range: {wrong}\r\n" if wrong else "")
        rest = says("206 Partial Content", headers, b"x" * 50)
        async with peer(first, rest) as there, office(tmp_path) as here:
            error = await here.failure(_announced(b"x" * 100, there.url))
            assert "expected was bytes 50-99/100" in error.message
            assert here.fetcher.counters["size_mismatch"] == 1


@looped
async def test_a_worker_that_dies_in_the_middle_costs_an_attempt(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=2))
    data = depot.content(artifact)
    async with office(tmp_path) as here:
        async with peer(_cut_at(data, 1_000_000)) as there:
            fetching = asyncio.create_task(here.failure(replace(artifact, url=there.url)))
            await until(lambda: bool(there.heads))
        error = await fetching
        assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
        assert here.is_clean()
