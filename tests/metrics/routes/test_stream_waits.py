"""A stream whose query waits: signs of life, an end when there is no time left, and clients that go."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from quarterdeck.crew.process.memory_budget import HEAVY_BYTES, Account
from quarterdeck.metrics.service import QueryOptions
from tests.http.asked import until
from tests.metrics.routes.asking import Frame, frames_of
from tests.metrics.routes.played import Port, port
from tests.metrics.routes.samples import END_S, START_S
from tests.patience import PATIENCE_S
from tests.scan.scanned import Client

STREAM = "/api/v1/metrics/query"
HEARTBEAT = {"type": "heartbeat"}
BEAT_S = 0.005
NEVER_S = 10_000.0
HEAVY = "max_over_time(memory_bytes[5m:1m])"
"""One with a subquery has to wait for its turn, however little it reads."""
Scenario = Callable[[Port], Coroutine[Any, Any, None]]


def play(
    folder: Path,
    scenario: Scenario,
    heartbeat_s: float = BEAT_S,
    *,
    with_worker: bool = True,
    **options: Any,
) -> None:
    async def run() -> None:
        wanted = QueryOptions(**options)
        async with asyncio.timeout(PATIENCE_S), port(folder, wanted, heartbeat_s, with_worker=with_worker) as made:
            await scenario(made)

    asyncio.run(run())


def client(query: str = "memory_bytes", kind: type[Client] = Client) -> Client:
    body = {"q": query, "s": START_S * 1000, "e": END_S * 1000}
    made = kind(json.dumps(body).encode())
    made.scope.update({"path": STREAM, "raw_path": STREAM.encode()})
    return made


async def whole(made: Port, client: Client) -> list[Frame]:
    await made.app(client.scope, client.receive, client.send)
    answer = client.answer()
    assert answer.status == 200
    return frames_of(answer.body)


def test_a_client_hears_signs_of_life_while_its_query_waits_and_runs(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        first, second = client(HEAVY), client(HEAVY)
        asked = [asyncio.create_task(made.app(one.scope, one.receive, one.send)) for one in (first, second)]
        await until(lambda: made.queries.admission.depth == 1 and bool(made.running))
        assert first.sent
        assert second.sent, "the response of one that is in line has begun, too"
        for one in (first, second):
            before = len(one.sent)
            await until(lambda one=one, before=before: len(one.sent) > before + 2)
            assert all(frame == HEARTBEAT for frame in frames_of(one.body))
            one.gone.set()
        await asyncio.gather(*asked)

    play(tmp_path, scenario, at_once=1)


def test_a_client_that_goes_cancels_its_query_wherever_it_is(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        running, waiting = client(HEAVY), client(HEAVY)
        asked = [asyncio.create_task(made.app(one.scope, one.receive, one.send)) for one in (running, waiting)]
        await until(lambda: made.queries.admission.depth == 1 and bool(made.running))
        waiting.gone.set()
        await asked[1]
        assert made.canceled == [], "it had no works yet"
        assert made.queries.admission.depth == 0
        query_ids = {attempt.key.query_id for attempt in made.running}
        running.gone.set()
        await asked[0]
        await until(lambda: set(made.canceled) == query_ids and not made.running)

    play(tmp_path, scenario, NEVER_S, at_once=1)


def test_the_servers_time_ends_a_stream_with_an_error(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        (end,) = await whole(made, client())
        assert (end["type"], end["data"]["status"], end["data"]["errorType"]) == ("done", "error", "timeout")
        await until(lambda: bool(made.canceled) and not made.running)

    play(tmp_path, scenario, NEVER_S, timeout_s=0.05)


def test_a_client_may_ask_for_less_time_than_the_server_allows_and_for_no_more(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        for theirs_ms, allowed in ((20, "it had 0.02 s"), (3_600_000, "it had 0.05 s")):
            asking = client()
            asking.scope["query_string"] = f"timeout={theirs_ms}ms".encode()
            (end,) = await whole(made, asking)
            assert allowed in json.dumps(end)

    play(tmp_path, scenario, NEVER_S, timeout_s=0.05)


class Reluctant(Client):
    """Takes the head of the answer, and of its body what the test lets it take."""

    async def send(self, message: Message) -> None:
        if "body" in message:
            self.is_stuck = not self.reads.is_set()
            await self.reads.wait()
        self.sent.append(message)

    is_stuck = False


def end_the_only_query(made: Port) -> Account:
    """As if it had the most of all; an account of the test is left."""
    budget = made.queries.budget
    (owner,) = {account.owner for account in budget._accounts}  # pyright: ignore[reportPrivateUsage]
    account = budget.open(owner, "the test's", lambda error: None)
    account.draw(2 * HEAVY_BYTES)
    assert budget.end_largest("memory is short") is not None
    return account


def test_a_query_whose_client_does_not_read_gives_its_memory_back_when_it_is_to_end(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        asking = client("vector(1)", Reluctant)
        assert isinstance(asking, Reluctant)
        asking.reads.clear()
        asked = asyncio.create_task(made.app(asking.scope, asking.receive, asking.send))
        await until(lambda: asking.is_stuck)
        end_the_only_query(made).close()
        await until(lambda: made.queries.budget.is_idle)
        asking.reads.set()
        await asked
        *_, end = frames_of(asking.answer().body)
        assert (end["data"]["status"], end["data"]["errorType"]) == ("error", "execution")
        assert "was ended: it has 129 MiB, the most of all, and memory is short" in end["data"]["error"]

    play(tmp_path, scenario, NEVER_S)


def test_a_query_that_waits_for_its_works_ends_when_it_is_to_end(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        asking = client()
        asked = asyncio.create_task(made.app(asking.scope, asking.receive, asking.send))
        await until(lambda: bool(made.running))
        end_the_only_query(made).close()
        await asked
        (end,) = frames_of(asking.answer().body)
        assert end["data"]["errorType"] == "execution"
        await until(lambda: bool(made.canceled) and not made.running)
        assert made.queries.budget.is_idle

    play(tmp_path, scenario, NEVER_S)


def test_a_query_that_no_worker_takes_ends_with_an_error(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        *beats, end = await whole(made, client())
        assert all(beat == HEARTBEAT for beat in beats)
        assert (end["data"]["status"], end["data"]["errorType"]) == ("error", "unavailable")

    play(tmp_path, scenario, with_worker=False, wait_limit_s=0.05)


def test_a_coordinator_that_stops_says_so_in_the_last_frame(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        made.queries.close()
        (end,) = await whole(made, client())
        assert end["data"]["errorType"] == "unavailable"
        assert "shutting down" in end["data"]["error"]

    play(tmp_path, scenario, NEVER_S)


def test_what_nobody_expected_leaves_a_stream_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(made: Port) -> None:
        async def broken(tenant: str) -> None:
            raise ZeroDivisionError(tenant)

        monkeypatch.setattr(made.queries.catalog, "universe", broken)
        asking = client()
        with pytest.raises(ZeroDivisionError):
            await made.app(asking.scope, asking.receive, asking.send)
        assert [message["type"] for message in asking.sent] == ["http.response.start"]
        assert "nobody expected" in caplog.text

    play(tmp_path, scenario, NEVER_S)


class Stuck(Client):
    """Takes no results."""

    async def send(self, message: Message) -> None:
        if b'"result"' in message.get("body", b""):
            await asyncio.Event().wait()
        await super().send(message)


def test_a_client_that_does_not_read_holds_no_query_longer_than_the_server_allows(tmp_path: Path) -> None:
    async def scenario(made: Port) -> None:
        (end,) = await whole(made, client("vector(1)", Stuck))
        assert end["data"]["errorType"] == "timeout"

    play(tmp_path, scenario, NEVER_S, timeout_s=0.2)
