"""Connections of the client: kept, broken, never made."""

import asyncio
import os
import socket
import ssl as tls
import sys

import pytest
import trustme

from quarterdeck.http import client as client_module
from quarterdeck.http.client import (
    BrokenConnectionError,
    NotHttpError,
    Origin,
    split_address,
)
from tests.http.asked import until
from tests.http.client_scene import (
    KIB,
    chunked,
    idle_in,
    inside,
    listening,
    looped,
    ok,
    refusal,
    rest_of,
    scene,
    sweep,
    timers_of_the_client,
    trusting,
)
from tests.ports import dead_port

# Connections that are kept


@looped
async def test_a_connection_is_used_again_after_an_answer_that_was_read_to_its_end() -> None:
    async with scene() as s:
        for number in range(5):
            assert (await s.fetched(ok(b"%d" % number)))[0] == b"%d" % number
        assert len(s.peer.links) == 1


@looped
async def test_a_connection_is_used_again_when_what_was_not_read_had_already_come() -> None:
    async with scene() as s:
        answer, _ = await s.answered(ok(b"old"))
        answer.close()
        assert (await s.fetched(ok(b"new")))[0] == b"new"
        assert len(s.peer.links) == 1


@looped
async def test_what_was_not_read_takes_no_memory_in_an_idle_connection_whose_end_is_noticed() -> None:
    async with scene() as s:
        body = b"x" * 700 * KIB
        answer, link = await s.answered(ok(body)[: -len(body)])
        connection = inside(answer)
        connection.data_received(body)
        answer.close()
        assert connection._waiting_bytes == 0
        link.hang_up()
        await connection.ended.wait()
        assert (await s.fetched(ok(b"new")))[0] == b"new"


@looped
@pytest.mark.parametrize(
    "data",
    [ok(b"abc", b"Connection: close"), ok(b"abc").replace(b"1.1", b"1.0")],
    ids=["it says close", "it is of an old version"],
)
async def test_a_connection_that_the_peer_will_close_is_not_used_again(data: bytes) -> None:
    async with scene() as s:
        body, first = await s.fetched(data)
        assert body == b"abc"
        await first.gone.wait()
        assert (await s.fetched(ok(b"new")))[1] is not first


@looped
@pytest.mark.parametrize("data", [ok(b"abc")[:-1], chunked(b"abc")[:-2], b"HTTP/1.1 200 OK\r\n\r\nabc"])
async def test_a_connection_is_not_used_again_when_its_answer_was_closed_before_its_end(data: bytes) -> None:
    async with scene() as s:
        answer, first = await s.answered(data)
        assert await answer.read() == b"abc"[: len(b"abc") - (data == ok(b"abc")[:-1])]
        answer.close()
        assert s.client.in_use == 0
        await first.gone.wait()
        assert (await s.fetched(ok(b"new")))[1] is not first


@looped
async def test_a_connection_is_not_used_again_after_an_error() -> None:
    async with scene() as s:
        assert isinstance(await s.failure(b"what?\r\n\r\n"), NotHttpError)
        assert (s.client.in_use, idle_in(s.client)) == (0, 0)
        await s.fetched(ok(b"new"))
        assert len(s.peer.links) == 2


@looped
async def test_the_connection_that_was_used_last_is_taken_first() -> None:
    async with scene() as s:
        answers = [await s.answered(ok(b"")) for _ in range(3)]
        assert len({link for _, link in answers}) == s.client.in_use == 3
        for place in (1, 2, 0):
            answers[place][0].close()
        taken = [await s.answered(ok(b"")) for _ in range(3)]
        assert [link for _, link in taken] == [answers[place][1] for place in (0, 2, 1)]
        for answer, _ in taken:
            answer.close()


@looped
async def test_a_connection_is_kept_for_its_own_origin_only() -> None:
    async with scene() as s, listening() as other:
        await s.fetched(ok(b"here"))
        asking = asyncio.create_task(s.client.get(Origin("http", "127.0.0.1", other.port), "/"))
        (await other.asked()).say(ok(b"there"))
        assert await rest_of(await asking) == b"there"
        await s.fetched(ok(b"here"))
        assert (len(s.peer.links), len(other.links)) == (1, 1)
        await s.client.close()


@looped
async def test_an_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_KEEP_S", 0.01)
    async with scene() as s:
        _, link = await s.fetched(ok(b"abc"))
        await link.gone.wait()
        await until(lambda: not idle_in(s.client))
        assert not timers_of_the_client()
        await s.fetched(ok(b"abc"))


@looped
async def test_only_connections_that_were_idle_for_so_long_are_closed() -> None:
    async with scene() as s:
        answers = [await s.answered(ok(b"")) for _ in range(2)]
        old, fresh = (inside(answer) for answer, _ in answers)
        for answer, _ in answers:
            answer.close()
        old.idle_since -= 16
        sweep(s.client)
        await answers[0][1].gone.wait()
        assert (old.usable, fresh.usable, idle_in(s.client)) == (False, True, 1)
        assert (await s.fetched(ok(b"")))[1] is answers[1][1]


@looped
async def test_an_idle_connection_that_the_peer_closed_is_not_taken_and_forgotten() -> None:
    async with scene() as s:
        answers = [await s.answered(ok(b"")) for _ in range(2)]
        connections = [inside(answer) for answer, _ in answers]
        for answer, link in answers:
            answer.close()
            link.hang_up()
        for connection in connections:
            await connection.ended.wait()
        sweep(s.client)
        assert idle_in(s.client) == 0
        _, link = await s.fetched(ok(b""))
        assert link is s.peer.links[2]
        link.hang_up()
        await until(lambda: not any(each.usable for idle in s.client._idle.values() for each in idle))  # pyright: ignore[reportPrivateUsage]
        assert (await s.fetched(ok(b"")))[1] is s.peer.links[3]


@looped
async def test_closing_the_client_waits_until_its_connections_are_closed() -> None:
    async with scene() as s:
        answers = [await s.answered(ok(b"")) for _ in range(3)]
        connections = [inside(answer) for answer, _ in answers]
        for answer, _ in answers:
            answer.close()
        await s.client.close()
        assert all(connection.ended.is_set() for connection in connections)
        assert (idle_in(s.client), timers_of_the_client()) == (0, [])
        await s.client.close()


@looped
async def test_an_answer_that_outlives_the_client_does_not_keep_its_connection() -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abc"))
        await s.client.close()
        assert await rest_of(answer) == b"abc"
        await link.gone.wait()
        assert idle_in(s.client) == 0


# Connections that break


@looped
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_connection_that_breaks_before_the_end_of_the_head_gives_no_answer(data: bytes) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        link.say(data)
        link.hang_up()
        with pytest.raises(BrokenConnectionError, match="closed by the peer"):
            await asking
        assert (s.client.in_use, idle_in(s.client)) == (0, 0)


@looped
async def test_a_connection_that_is_reset_says_so() -> None:
    async with scene() as s:
        asking, link = await s.asked()
        link.reset()
        with pytest.raises(BrokenConnectionError, match="reset by peer"):
            await asking


@looped
@pytest.mark.parametrize("data", [ok(b"abcd")[:-1], chunked(b"abc")[:-2], chunked(b"abc")[:-7]])
async def test_what_came_before_the_connection_broke_can_be_read(data: bytes) -> None:
    async with scene() as s:
        answer, link = await s.answered(data)
        connection = inside(answer)
        link.hang_up()
        await connection.ended.wait()
        assert await answer.read() == b"abc"
        for _ in range(2):
            with pytest.raises(BrokenConnectionError, match="closed by the peer"):
                await answer.read()
        answer.close()


@looped
async def test_a_body_without_a_length_is_not_whole_when_its_connection_is_reset() -> None:
    async with scene() as s:
        answer, link = await s.answered(b"HTTP/1.1 200 OK\r\n\r\nabc")
        assert await answer.read() == b"abc"
        link.reset()
        with pytest.raises(BrokenConnectionError):
            await answer.read()
        answer.close()


# No connection


def certified(authority: trustme.CA) -> tls.SSLContext:
    context = tls.SSLContext(tls.PROTOCOL_TLS_SERVER)
    with authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.tempfile() as path:
        context.load_cert_chain(path)
    return context


@looped
async def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with dead_port() as port:
        why = await refusal(Origin("http", "127.0.0.1", port))
    assert "Connect call failed" in why or "refused" in why


@looped
@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 64, ".", "[:::]"])
async def test_a_name_that_nobody_has_is_unreachable(host: str) -> None:
    origin, _ = split_address(f"http://{host}/")
    assert " " in await refusal(origin)


@looped
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a queue of nothing takes more than one")
async def test_a_connection_that_takes_too_long_is_given_up() -> None:
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        why = await refusal(Origin("http", "127.0.0.1", full.getsockname()[1]), stall_timeout_s=0.05)
    assert why == "it did not answer within 0.05 s"


@looped
async def test_an_answer_comes_over_tls_on_a_kept_connection(authority: trustme.CA) -> None:
    body = os.urandom(3_000_000)
    async with scene(ssl=trusting(authority), peer_ssl=certified(authority)) as s:
        assert (await s.fetched(ok(body)))[0] == body
        assert (await s.fetched(ok(b"abc")))[0] == b"abc"
        answer, link = await s.answered(ok(b"abcd")[:-1])
        link.hang_up()
        assert await answer.read() == b"abc"
        with pytest.raises(BrokenConnectionError):
            await answer.read()
        answer.close()
        assert len(s.peer.links) == 1


@looped
async def test_a_certificate_that_nobody_vouches_for_is_refused(authority: trustme.CA) -> None:
    async with listening(certified(authority)) as peer:
        why = await refusal(Origin("https", "127.0.0.1", peer.port), ssl=trusting(trustme.CA()))
    assert "certificate verify failed" in why


@looped
async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA) -> None:
    async with listening(certified(authority)) as peer:
        why = await refusal(Origin("https", "localhost", peer.port), ssl=trusting(authority))
    assert "localhost" in why


@looped
async def test_a_peer_that_does_not_shake_hands_is_given_up(authority: trustme.CA) -> None:
    async with listening() as peer:
        origin = Origin("https", "127.0.0.1", peer.port)
        why = await refusal(origin, ssl=trusting(authority), stall_timeout_s=0.05)
    assert why == "it did not answer within 0.05 s"


@looped
async def test_a_peer_that_hangs_up_instead_of_shaking_hands_is_unreachable(authority: trustme.CA) -> None:
    async with listening() as peer:
        failing = asyncio.create_task(refusal(Origin("https", "127.0.0.1", peer.port), ssl=trusting(authority)))
        await until(lambda: bool(peer.links))
        peer.links[0].hang_up()
        assert " " in await failing


@looped
async def test_a_peer_that_speaks_no_tls_is_unreachable(authority: trustme.CA) -> None:
    async with listening() as peer:
        failing = asyncio.create_task(refusal(Origin("https", "127.0.0.1", peer.port), ssl=trusting(authority)))
        await until(lambda: bool(peer.links))
        peer.links[0].say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert "SSL" in await failing
