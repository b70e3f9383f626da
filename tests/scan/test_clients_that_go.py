"""`POST /v1/scan` when its client goes or does not read, and what people see of scans meanwhile."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord.model import WorkError
from quarterdeck.http.errors import AnswerCutOffError
from quarterdeck.scan import routes
from quarterdeck.scan.formats import Format, Writer, make_writer
from quarterdeck.scan.routes import scan_router
from quarterdeck.stores.source_roots import SourceRoots
from tests.http.asked import until
from tests.scan.asking import HOURS_S, Deadline, error_of, play
from tests.scan.scanned import NEVER, Client, Port, numbers

_pa: Any = pyarrow
WRONG_SQL = WorkError(ErrorCode.WORK_FAILED, "there is no column x", retryable=False)
EMPTY = numbers()


# Clients that go away


def test_a_client_that_goes_before_the_first_row_cancels_its_query(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER, b=numbers(1), c=numbers(2))
        client = Client(port.body())
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(lambda: port.fetched == 2)  # they wait for the first
        client.gone.set()
        await asking
        assert client.sent == []
        await until(lambda: len(port.canceled) == 1)

    play(tmp_path, scenario)


def told(port: Port) -> dict[str, Any]:
    """What people see of the only scan."""
    (one,) = port.service.log.documents(10)
    return one


def test_people_see_what_is_scanned_for_whom_and_how_it_ended(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        answer = await port.ask_with({"x-scope-orgid": "acme"}, sql="select 1")
        seen = told(port)
        assert seen["query_id"] == answer.headers["x-query-id"]
        assert (seen["kind"], seen["text"], seen["tenant"]) == ("scan", "select 1", "acme")
        assert (seen["state"], seen["error"]) == ("succeeded", None)

    play(tmp_path, scenario)


def test_people_see_why_a_scan_failed(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=WRONG_SQL)
        await port.ask()
        seen = told(port)
        assert seen["state"] == "failed"
        assert WRONG_SQL.message in seen["error"]["message"]

    play(tmp_path, scenario)


def test_people_see_that_a_scan_was_refused_for_its_sources(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.app.router.routes.clear()
        port.app.include_router(scan_router(port.service, SourceRoots([])))
        answer = await port.ask_with({"x-scope-orgid": "acme"}, sql="select 1")
        assert error_of(answer) == (403, "permission_denied")
        seen = told(port)
        assert (seen["state"], seen["text"], seen["tenant"]) == ("failed", "select 1", "acme")
        assert seen["error"]["code"] == "permission_denied"

    play(tmp_path, scenario)


def test_people_see_that_a_scan_took_too_long_and_that_another_ones_client_went(
    tmp_path: Path, deadline: Deadline
) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER, b=numbers(1))
        asking = asyncio.create_task(port.ask(timeout_s=HOURS_S))
        await until(lambda: port.fetched == 1)
        assert told(port)["state"] == "running"
        deadline.comes()
        await asking
        assert (told(port)["state"], told(port)["error"]["code"]) == ("failed", "deadline_exceeded")
        client = Client(port.body())
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(lambda: port.fetched == 2)
        client.gone.set()
        await asking
        assert [one["state"] for one in port.service.log.documents(10)] == ["canceled", "failed"]

    play(tmp_path, scenario)


def test_a_client_that_goes_while_it_does_not_read_costs_nothing_that_was_fetched(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(**{name: numbers(number) for number, name in enumerate("abcdefgh")})
        client = Client(port.body())
        client.reads.clear()
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(lambda: len(port.held) == 5)  # one is being sent, the others wait for it
        client.gone.set()
        await asking
        assert client.sent == []

    play(tmp_path, scenario, window=4)


def test_a_query_that_fails_while_its_client_does_not_read_costs_nothing_that_was_fetched(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=numbers(2), c=WRONG_SQL, d=numbers(4))
        client = Client(port.body())
        client.reads.clear()
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(lambda: port.fetched == 2 and not list(port.machine.ledger.queries()))
        client.reads.set()
        with pytest.raises(AnswerCutOffError):
            await asking

    play(tmp_path, scenario, window=2)


def test_a_client_that_goes_while_files_are_looked_for_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(port: Port) -> None:
        looking, ended = asyncio.Event(), asyncio.Event()

        async def find(pattern: str, border: object) -> Any:
            looking.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(port.objects, "find", find)
        client = Client(port.body())
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await looking.wait()
        client.gone.set()
        await asking
        assert ended.is_set()
        assert client.sent == []

    play(tmp_path, scenario)


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_being_rendered_when_the_client_goes_is_released_when_its_thread_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def slow(writer: Any, batches: Any) -> Any:
        for batch in batches:
            begun.set()
            assert go_on.wait(10)
            seen.append(batch.num_rows)
            yield b"never sent"

    async def scenario(port: Port) -> None:
        monkeypatch.setattr(routes, "rendered", slow)
        port.fetched = int(on_disk)
        port.put(a=numbers(1, 2, 3))
        client = Client(port.body())
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(begun.is_set)
        client.gone.set()
        await asyncio.wait([asking], timeout=0.05)
        assert not asking.done()
        assert len(port.held) == 1  # a thread still reads it
        go_on.set()
        await asking
        assert (seen, port.held, client.sent) == ([3], set(), [])

    play(tmp_path, scenario)


def test_what_renders_is_closed_however_an_answer_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(port: Port) -> None:
        made: list[Writer] = []

        def make(form: Format) -> Writer:
            made.append(make_writer(form))
            return made[-1]

        monkeypatch.setattr(routes, "make_writer", make)
        port.put(a=numbers(1), b=numbers(2))
        await port.ask()
        port.put(b=WRONG_SQL)
        client = Client(port.body())
        with suppress(AnswerCutOffError):
            await port.app(client.scope, client.receive, client.send)
        assert [vars(vars(writer)["_lines"])["_database"] for writer in made] == [None, None]

    play(tmp_path, scenario, window=1)


def test_an_answer_is_open_until_it_is_sent_broken_off_or_given_up(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        reading, leaving = Client(port.body()), Client(port.body())
        clients = (reading, leaving)
        for client in clients:
            client.reads.clear()
        asking = [asyncio.create_task(port.app(each.scope, each.receive, each.send)) for each in clients]
        await until(lambda: port.fetched == 2 and not list(port.machine.ledger.queries()))
        assert port.service.open_answers.count == 2  # although nothing is done for them any more
        leaving.gone.set()
        await asking[1]
        assert port.service.open_answers.count == 1
        reading.reads.set()
        await asking[0]
        assert (port.service.open_answers.count, reading.body) == (0, b'{"n":1}\n')
        port.put(a=WRONG_SQL)
        assert (await port.ask()).status == 422
        assert port.service.open_answers.count == 0

    play(tmp_path, scenario)
