"""Peers that talk nonsense: each is told what is wrong, and counted, while a query for somebody else runs through."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest

from quarterdeck.control.codec import MAX_ENVELOPE_BYTES, encode
from quarterdeck.control.grpc_link import METHOD
from quarterdeck.control.link import Envelope
from quarterdeck.control.options import METADATA_IDENTITY, METADATA_PROTOCOL, METADATA_TOKEN, PROTOCOL
from quarterdeck.core.ids import LeafId, QueryId, SessionId, WorkId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    CreditChanged,
    Register,
    WorkerBeat,
    WorkReady,
)
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkerStatus, WorkKey, WorkSpec
from tests.e2e.bystander import Bystander
from tests.e2e.conftest import FOUR
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import TOKEN, Figures, Scan, delta
from tests.e2e.impostors import PATIENCE_S, FalseCoordinator, Impostor, dialled, false_worker, worker_info
from tests.e2e.lake import Lake, burning

pytestmark = pytest.mark.xdist_group("e2e-shared")

ACCEPTING = WorkerStatus(accepting_work=True)
SOME_ATTEMPT = AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId("w")), 1)
PROTOCOL_ERRORS = "quarterdeck_coordinator_protocol_errors_total"
UNREGISTERED = "quarterdeck_coordinator_connections_without_registration_total"


@pytest.fixture
def undisturbed(coordinator: Coordinator, hands: list[Worker], lake: Lake) -> Iterator[None]:
    """Queries that run all the while, and whose every work succeeds at the first attempt."""
    with Bystander(coordinator, lake.files[:8], FOUR):
        yield
    assert coordinator.accepting() >= {worker.name for worker in hands}


def counted(coordinator: Coordinator, before: Figures, name: str) -> None:
    until(lambda: delta(before, coordinator.door.metrics(), name) == 1, f"{name} has counted it")


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


# To a coordinator


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4096, bytes(range(256)) * 64], ids=["http", "zeros", "all"]
)
def test_bytes_that_are_no_grpc_end_their_connection(
    coordinator: Coordinator, undisturbed: None, garbage: bytes
) -> None:
    host, _, port = coordinator.control.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):
                pass


@contextlib.asynccontextmanager
async def raw_call(address: str) -> "AsyncGenerator[grpc.aio.StreamStreamCall[bytes, bytes]]":
    """A stream that carries any bytes."""
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        converse: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        call = converse(
            metadata=grpc.aio.Metadata(
                (METADATA_PROTOCOL, PROTOCOL), (METADATA_IDENTITY, "raw"), (METADATA_TOKEN, f"Bearer {TOKEN}")
            )
        )
        try:
            yield call
        finally:
            call.cancel()


async def end_of(call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> grpc.StatusCode:
    async with asyncio.timeout(PATIENCE_S):
        return await call.code()


def test_an_envelope_that_cannot_be_read_ends_its_connection_and_is_counted(
    coordinator: Coordinator, undisturbed: None
) -> None:
    before = coordinator.door.metrics()

    async def scenario() -> None:
        async with raw_call(coordinator.control) as call:
            await call.write(b"\xff" * 100)
            await end_of(call)

    run(scenario())
    counted(coordinator, before, UNREGISTERED)
    trouble = coordinator.log.find("trouble with a peer", peer="raw")
    assert "cannot be read" in trouble[-1]["what"]


def test_an_envelope_that_is_too_large_ends_its_connection_and_is_counted(
    coordinator: Coordinator, undisturbed: None
) -> None:
    before = coordinator.door.metrics()

    async def scenario() -> None:
        async with raw_call(coordinator.control) as call:
            await call.write(b"\x00" * (MAX_ENVELOPE_BYTES + 1))
            await end_of(call)

    run(scenario())
    counted(coordinator, before, UNREGISTERED)


def test_a_peer_that_sends_an_oversized_envelope_in_a_session_loses_it(
    coordinator: Coordinator, undisturbed: None, tenant: str
) -> None:
    before = coordinator.door.metrics()

    async def scenario() -> None:
        async with raw_call(coordinator.control) as call:
            register = Register(worker_info("too-much", tenant=tenant), ACCEPTING)
            await call.write(encode(Envelope(None, 0, (register,))))
            await call.read()
            await call.write(b"\x00" * (MAX_ENVELOPE_BYTES + 1))
            await end_of(call)

    run(scenario())
    until(lambda: "too-much" not in coordinator.workers(), "it has lost its session")
    assert delta(before, coordinator.door.metrics(), "quarterdeck_coordinator_disconnects_total") == 1


Mischief = Callable[[Impostor], Awaitable[None]]


async def out_of_order(impostor: Impostor) -> None:
    impostor.sent += 5
    await impostor.say(WorkerBeat(ACCEPTING))


async def of_another_session(impostor: Impostor) -> None:
    await impostor.send(Envelope(SessionId("another"), impostor.sent, (WorkerBeat(ACCEPTING),)))


async def unasked(impostor: Impostor) -> None:
    await impostor.say(WorkReady(SOME_ATTEMPT, Artifact("http://127.0.0.1:1/x", 1, "xxh3_128:0", 1, 0, 0, 1)))


async def words_of_the_other_side(impostor: Impostor) -> None:
    await impostor.say(ArtifactAck(SOME_ATTEMPT))


async def credit_below_nothing(impostor: Impostor) -> None:
    await impostor.say(CreditChanged(-1))


@pytest.mark.parametrize(
    ("mischief", "words"),
    [
        (out_of_order, "was due"),
        (of_another_session, "session another"),
        (unasked, "not on this session"),
        (words_of_the_other_side, "ArtifactAck"),
    ],
)
def test_a_worker_that_breaks_the_protocol_is_counted_and_loses_its_session(
    coordinator: Coordinator, undisturbed: None, tenant: str, mischief: Mischief, words: str
) -> None:
    before = coordinator.door.metrics()

    async def scenario() -> None:
        async with false_worker(coordinator.control, worker_info("impostor", tenant=tenant)) as impostor:
            await mischief(impostor)
            await impostor.hear_the_end()

    run(scenario())
    until(lambda: "impostor" not in coordinator.workers(), "it has lost its session")
    counted(coordinator, before, PROTOCOL_ERRORS)
    said = [str(record) for record in coordinator.log.records()[-20:]]
    assert any(words in record for record in said), said


def test_a_peer_that_never_says_who_it_is_is_let_go_and_counted(coordinator: Coordinator, undisturbed: None) -> None:
    before = coordinator.door.metrics()

    async def scenario() -> None:
        async with dialled(coordinator.control, "mute") as impostor:
            await impostor.say(WorkerBeat(ACCEPTING))
            await impostor.hear_the_end()

    run(scenario())
    counted(coordinator, before, UNREGISTERED)


def test_of_two_workers_with_one_id_the_later_start_wins_and_the_earlier_is_told_why(
    coordinator: Coordinator, undisturbed: None, crew: Crew, lake: Lake, tenant: str
) -> None:
    before = coordinator.door.metrics()
    earlier = crew.worker("twin", join=[coordinator.control], tenant=tenant)
    coordinator.wait_for(earlier)
    incarnation = coordinator.workers()["twin"]["incarnation"]

    async def scenario() -> None:
        later = worker_info("twin", incarnation=incarnation + 1, tenant=tenant)
        async with false_worker(coordinator.control, later):
            refused = await asyncio.to_thread(
                until,
                lambda: [r for r in earlier.log.find("trouble with a peer") if "refused" in r["what"]],
                "it is told",
            )
            assert "taken by a process that started later" in refused[0]["what"]
            assert coordinator.workers()["twin"]["incarnation"] == incarnation + 1
            # And the earlier cannot take the place by asking again.
            await asyncio.to_thread(
                until, lambda: earlier.door.metric("quarterdeck_worker_registrations_failed_total") >= 2, ""
            )
            assert coordinator.workers()["twin"]["incarnation"] == incarnation + 1

    run(scenario())
    assert delta(before, coordinator.door.metrics(), "quarterdeck_coordinator_registrations_refused_total") >= 1
    coordinator.wait_for(earlier)


# To a worker


def leaf(number: int) -> AssignWork:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId(f"w{number}"))
    return AssignWork(WorkSpec(key, WorkKind("leaf"), tenant=FOUR), 1)


def test_a_worker_that_is_given_work_of_a_kind_it_does_not_take_ends_that_session_alone(
    coordinator: Coordinator, undisturbed: None, crew: Crew, lake: Lake, tenant: str
) -> None:
    async def scenario() -> None:
        async with FalseCoordinator("false").listening() as false:
            worker = crew.worker("careful", join=[coordinator.control, false.address], tenant=tenant)
            await asyncio.to_thread(coordinator.wait_for, worker)
            with coordinator.door.asked(Scan(burning(1), lake.files[:8], tenant)) as answer:
                guest = await false.guest("careful")
                await guest.say(leaf(1))
                await guest.hear_the_end()
                reason = await asyncio.to_thread(until, lambda: worker.log.find("session closed"), "it says why")
                assert "leaf work of tenant" in reason[0]["detail"]
                assert worker.door.metric("quarterdeck_worker_protocol_errors_total") == 1
                await asyncio.to_thread(answer.result, PATIENCE_S)
            assert coordinator.query(answer.result().query_id)["attempts"] == 8

    run(scenario())
