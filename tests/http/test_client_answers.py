"""What the client takes for an answer, and what not."""

import asyncio
from contextlib import suppress

import pytest

from quarterdeck.http.client import (
    NotHttpError,
)
from tests.http.client_scene import (
    KIB,
    ONE_READ,
    chunked,
    idle_in,
    inside,
    looped,
    ok,
    rest_of,
    scene,
)

# Answers


@looped
async def test_a_request_is_for_its_target_at_its_host_with_the_headers_of_the_client_and_its_own() -> None:
    async with scene() as s:
        asking = asyncio.create_task(s.client.get(s.origin, "/a?b=c", {"Range": "bytes=5-"}))
        link, head = await s.peer.requests.get()
        assert head.split("\r\n") == [
            "GET /a?b=c HTTP/1.1",
            f"Host: 127.0.0.1:{s.peer.port}",
            "X-Ours: 1",
            "Range: bytes=5-",
            "",
            "",
        ]
        link.say(ok(b""))
        (await asking).close()


@looped
async def test_an_answer_has_its_status_its_headers_in_lower_case_and_its_length() -> None:
    async with scene() as s:
        answer, _ = await s.answered(b"HTTP/1.1 206 Part\r\nContent-LENGTH: 3\r\nX-Twice: a\r\nx-twice: B\r\n\r\nabc")
        assert (answer.status, answer.length) == (206, 3)
        assert answer.headers == {b"content-length": b"3", b"x-twice": b"B"}
        assert await rest_of(answer) == b"abc"


@looped
async def test_a_body_is_read_as_it_comes_or_at_once() -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abcdef")[:-6])
        for piece in (b"ab", b"cd", b"ef"):
            link.say(piece)
            assert await answer.read() == piece
        assert await answer.read() == b""
        assert await answer.read() == b""
        answer.close()
        assert (await s.fetched(ok(b"abcdef")))[0] == b"abcdef"


@looped
async def test_an_answer_can_come_byte_by_byte() -> None:
    async with scene() as s:
        for data in (ok(b"abc"), chunked(b"a", b"bc", trailer=b"X: y\r\n")):
            asking, link = await s.asked()
            for byte in data:
                link.say(bytes([byte]))
                await asyncio.sleep(0)
            assert await rest_of(await asking) == b"abc"
        assert len(s.peer.links) == 1


@looped
async def test_a_body_in_chunks_is_put_together_and_has_no_length() -> None:
    async with scene() as s:
        answer, _ = await s.answered(chunked(b"abc", b"d" * 5000, b"e"))
        assert answer.length is None
        assert await rest_of(answer) == b"abc" + b"d" * 5000 + b"e"
        assert idle_in(s.client) == 1


@looped
async def test_what_follows_the_last_chunk_does_not_change_the_headers() -> None:
    async with scene() as s:
        answer, _ = await s.answered(chunked(b"abc", trailer=b"Transfer-Encoding: x\r\nContent-Range: bytes 0-1/2\r\n"))
        assert answer.headers == {b"transfer-encoding": b"chunked"}
        with suppress(NotHttpError):  # the parser may refuse it
            await rest_of(answer)
        assert answer.headers == {b"transfer-encoding": b"chunked"}


@looped
async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with scene() as s:
        answer, link = await s.answered(b"HTTP/1.1 200 OK\r\n\r\nabc")
        assert answer.length is None
        assert await answer.read() == b"abc"
        link.say(b"def")
        link.hang_up()
        assert await rest_of(answer) == b"def"
        assert idle_in(s.client) == 0


@looped
@pytest.mark.parametrize("head", [b"204 No Content\r\n", b"304 Not Modified\r\nContent-Length: 5\r\n", b"304 Same\r\n"])
async def test_an_answer_that_has_no_body_ends_with_its_head(head: bytes) -> None:
    async with scene() as s:
        answer, _ = await s.answered(b"HTTP/1.1 " + head + b"\r\n")
        assert answer.status == int(head[:3])
        assert await rest_of(answer) == b""
        assert (await s.fetched(ok(b"next")))[0] == b"next"
        assert len(s.peer.links) == 1


@looped
async def test_an_answer_that_was_closed_cannot_be_read_and_can_be_closed_again() -> None:
    async with scene() as s:
        answer, _ = await s.answered(ok(b"abc"))
        answer.close()
        answer.close()
        assert (s.client.in_use, idle_in(s.client)) == (0, 1)
        with pytest.raises(RuntimeError, match="closed"):
            await answer.read()


# What is no answer


@looped
@pytest.mark.parametrize("unasked", [ok(b"evil"), b"x", b"\r\n"])
async def test_what_comes_unasked_makes_an_idle_connection_unusable(unasked: bytes) -> None:
    async with scene() as s:
        _, first = await s.fetched(ok(b"abc"))
        first.say(unasked)
        await first.gone.wait()
        body, second = await s.fetched(ok(b"new"))
        assert (body, second is first) == (b"new", False)


@looped
@pytest.mark.parametrize("length", [1, 12, 20, 40, 200])
async def test_of_two_answers_to_one_question_the_second_is_never_taken(length: int) -> None:
    second = b"HTTP/1.1 500 Evil\r\nContent-Length: 4\r\nX-Evil: 1\r\n\r\nevil"[:length]
    async with scene() as s:
        answer, first = await s.answered(ok(b"abc") + second)
        assert (answer.status, answer.headers) == (200, {b"content-length": b"3"})
        assert await rest_of(answer) == b"abc"
        await first.gone.wait()
        body, other = await s.fetched(ok(b"new"))
        assert (body, other is first) == (b"new", False)


@looped
@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_garbage_is_no_answer(data: bytes) -> None:
    async with scene() as s:
        failure = await s.failure(data)
        assert isinstance(failure, NotHttpError)
        assert str(failure)


@looped
async def test_garbage_between_the_chunks_is_an_error_after_what_came_before() -> None:
    async with scene() as s:
        answer, link = await s.answered(chunked(b"abc")[:-5] + b"zzz\r\n")
        assert await answer.read() == b"abc"
        with pytest.raises(NotHttpError):
            await answer.read()
        answer.close()
        await link.gone.wait()


@looped
@pytest.mark.parametrize("headers", [b"Upgrade: x\r\nConnection: Upgrade\r\n", b""])
async def test_a_peer_that_goes_on_in_another_protocol_gives_no_answer(headers: bytes) -> None:
    async with scene() as s:
        failure = await s.failure(b"HTTP/1.1 101 Switching Protocols\r\n" + headers + b"\r\nbeep")
        assert isinstance(failure, NotHttpError)
        assert "protocol" in str(failure)


@looped
async def test_what_a_peer_says_before_its_answer_is_passed_over() -> None:
    before = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </y>\r\nContent-Length: 9\r\n\r\n"
    async with scene() as s:
        answer, _ = await s.answered(before + ok(b"abc"))
        assert (answer.status, answer.headers) == (200, {b"content-length": b"3"})
        assert await rest_of(answer) == b"abc"
        asking, link = await s.asked()
        for data in (before, before[:30], before[30:], ok(b"def")):
            link.say(data)
            await asyncio.sleep(0.001)  # mostly they come one by one; it must be right in any case
        answer = await asking
        assert answer.headers == {b"content-length": b"3"}
        assert await rest_of(answer) == b"def"
        assert len(s.peer.links) == 1


@looped
@pytest.mark.parametrize(
    "begin, more",
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 10_000),
        (b"HTTP/1.1 200 OK\r\nX", b"y" * 10_000),
        (b"HTTP/1.1 200 ", b"y" * 10_000),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
        (b"", b"\r\n" * 5000),
    ],
    ids=["a value", "a name", "a reason", "many headers", "many early answers", "empty lines"],
)
async def test_a_head_without_an_end_is_cut_off(begin: bytes, more: bytes, received: list[int]) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        link.say(begin)
        talking = asyncio.create_task(link.keep_saying(more))
        with pytest.raises(NotHttpError, match="longer than 65,536 bytes"):
            await asking
        await talking
        assert sum(received) <= 64 * KIB + ONE_READ


@looped
@pytest.mark.parametrize("trailer", [b"X: y\r\n" * 1000, b"X" * 10_000], ids=["many headers", "a name"])
async def test_headers_without_an_end_after_the_last_chunk_are_cut_off(trailer: bytes, received: list[int]) -> None:
    async with scene() as s:
        answer, link = await s.answered(chunked(b"abc")[:-2])
        assert await answer.read() == b"abc"
        talking = asyncio.create_task(link.keep_saying(trailer))
        with pytest.raises(NotHttpError, match="longer than 65,536 bytes"):
            await answer.read()
        answer.close()
        await talking
        assert sum(received) <= 64 * KIB + 2 * ONE_READ


@looped
async def test_what_stands_between_many_chunks_is_no_long_head() -> None:
    async with scene() as s:
        answer, link = await s.answered(chunked()[: -len(b"0\r\n\r\n")])
        connection = inside(answer)
        for _ in range(100):
            connection.data_received(b"2;" + b"x" * 1000 + b"\r\n")
            connection.data_received(b"ab\r\n")
        link.say(b"0\r\n\r\n")
        assert await rest_of(answer) == b"ab" * 100
        assert idle_in(s.client) == 1
