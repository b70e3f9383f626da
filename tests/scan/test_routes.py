"""`POST /v1/scan`: whole answers, proper errors before the first row, broken connections after it."""

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.messages import Register
from quarterdeck.core.workcoord.model import WorkError, WorkerStatus
from quarterdeck.http.errors import AnswerCutOffError
from quarterdeck.scan import routes
from tests.crew.played import PlayedLink, worker_info
from tests.http.asked import connected, served, until
from tests.scan.asking import HOURS_S, Deadline, error_of, play
from tests.scan.scanned import NEVER, Client, Port, numbers

_pa: Any = pyarrow
WRONG_SQL = WorkError(ErrorCode.WORK_FAILED, "there is no column x", retryable=False)
EMPTY = numbers()


# Whole answers


def test_rows_come_in_the_order_of_the_files_with_the_id_of_the_query(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1, 2), b=numbers(3), c=numbers(4, 5))
        answer = await port.ask()
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
        assert [json.loads(line)["n"] for line in answer.body.splitlines()] == [1, 2, 3, 4, 5]
        (query_id,) = {task.key.query_id for task in port.tasks}
        assert answer.headers["x-query-id"] == query_id
        assert answer.headers["cache-control"] == "no-store"

    play(tmp_path, scenario)


def test_the_form_is_the_one_in_the_request_or_in_the_header(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=numbers(2))
        by_word = await port.ask(format="csv")
        assert (by_word.headers["content-type"], by_word.body) == ("text/csv", b'"n"\n1\n2\n')
        by_header = await port.ask_with({"accept": "application/vnd.apache.arrow.stream"})
        assert _pa.ipc.open_stream(by_header.body).read_all().column("n").to_pylist() == [1, 2]

    play(tmp_path, scenario)


def test_an_answer_without_rows_is_whole_in_every_form(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=EMPTY, b=EMPTY, c=EMPTY)  # in memory and on disk
        arrow = await port.ask(format="arrow")
        assert _pa.ipc.open_stream(arrow.body).read_all().schema.names == ["n"]
        assert arrow.body.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
        lines = await port.ask(format="ndjson")
        assert (lines.status, lines.body) == (200, b"")
        assert (await port.ask(format="csv")).body == b'"n"\n'

    play(tmp_path, scenario)


@pytest.mark.parametrize("on_disk", [False, True])
def test_one_result_without_rows_tells_its_columns_wherever_it_is(tmp_path: Path, on_disk: bool) -> None:
    async def scenario(port: Port) -> None:
        port.fetched = int(on_disk)
        port.put(a=EMPTY)
        assert (await port.ask(format="csv")).body == b'"n"\n'

    play(tmp_path, scenario)


def test_a_request_without_sources_is_run_once(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        answer = await port.ask(sources=[], sql="select 0 as n")
        assert (answer.status, answer.body) == (200, b'{"n":0}\n')

    play(tmp_path, scenario)


def test_what_was_asked_for_reaches_the_worker(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=numbers(2))
        await port.ask(sql="select 7", ts_column="ts", with_filename=True, max_rows=9, files_per_work=2)
        (task,) = port.tasks.values()
        assert (task.sql, task.ts_column, task.with_filename, task.max_rows) == ("select 7", "ts", True, 9)
        assert [Path(file.url).stem for file in task.files] == ["a", "b"]

    play(tmp_path, scenario)


def test_the_header_says_whose_workers_do_it_and_the_crews_do_it_for_those_who_have_none(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        await port.ask()
        answer = await port.ask_with({"X-Scope-OrgID": "acme"})
        assert answer.status == 200
        assert port.tenants == {"default"}
        assert error_of(await port.ask_with({"X-Scope-OrgID": ""})) == (400, "invalid_argument")

    play(tmp_path, scenario)


def test_a_tenant_with_workers_of_its_own_is_served_by_these_alone(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        await port.ask()
        link = PlayedLink("theirs")
        serving = asyncio.create_task(port.driver.serve(link))
        info = replace(worker_info("theirs"), tenant="acme")
        link.say(Register(info, WorkerStatus(accepting_work=True)))
        await until(lambda: len(port.machine.roster) == 2)
        answer = await port.ask_with({"X-Scope-OrgID": "acme"}, timeout_s=0.05)
        assert error_of(answer) == (504, "deadline_exceeded")  # theirs gives no credit, and others' are not asked
        assert len(port.tasks) == 1
        link.hang_up()
        await serving

    play(tmp_path, scenario)


# In line


def test_scans_beyond_those_that_may_run_wait_for_their_turn(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER)
        first, second = (asyncio.create_task(port.ask(timeout_s=HOURS_S)) for _ in range(2))
        await until(lambda: len(port.tasks) == 1 and port.service.admission.depth == 1)
        port.made_of["a"] = numbers(1)
        first.cancel()
        await asyncio.wait([first])
        assert (await second).status == 200
        assert (port.service.admission.running, port.service.admission.depth) == (0, 0)

    play(tmp_path, scenario, at_once=1)


def test_a_scan_whose_turn_does_not_come_in_time_is_told_which_setting_lets_more_run(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER)
        first = asyncio.create_task(port.ask(timeout_s=HOURS_S))
        await until(lambda: len(port.tasks) == 1)
        answer = await port.ask(timeout_s=0.05)
        assert error_of(answer) == (504, "deadline_exceeded")
        assert "the scan was not run" in answer.json["error"]["what"]
        assert "scan.scans_at_once" in answer.json["error"]["next_step"]
        first.cancel()
        await asyncio.wait([first])

    play(tmp_path, scenario, at_once=1)


def test_the_time_that_a_scan_waits_in_line_is_taken_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_s: list[float] = []
    limit = routes.time_limit

    def seen(limit_s: float, late: Callable[[], QuarterdeckError]) -> AbstractAsyncContextManager[asyncio.Timeout]:
        given_s.append(limit_s)
        return limit(limit_s, late)

    monkeypatch.setattr(routes, "time_limit", seen)

    async def scenario(port: Port) -> None:
        port.put(a=NEVER)
        first, second = (asyncio.create_task(port.ask(timeout_s=HOURS_S)) for _ in range(2))
        await until(lambda: len(port.tasks) == 1 and port.service.admission.oldest_s > 0.05)
        port.made_of["a"] = numbers(1)
        first.cancel()
        await asyncio.wait([first])
        assert (await second).status == 200
        at_once, later = given_s
        assert HOURS_S - 60.0 < later < at_once - 0.04 < at_once <= HOURS_S

    play(tmp_path, scenario, at_once=1)


def test_a_scan_for_which_the_line_is_too_long_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER)
        asking = [asyncio.create_task(port.ask(timeout_s=HOURS_S)) for _ in range(51)]
        await until(lambda: port.service.admission.depth == 50)
        answer = await port.ask()
        assert error_of(answer) == (429, "resource_exhausted")
        assert "50 others wait already" in answer.json["error"]["why"]
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)

    play(tmp_path, scenario, at_once=1)


@pytest.mark.parametrize("timeout_s, theirs", [(None, False), (80_000.0, False), (0.05, True)])
def test_a_scan_takes_no_longer_than_the_coordinator_allows(
    tmp_path: Path, timeout_s: float | None, theirs: bool
) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER)
        answer = await port.ask(timeout_s=timeout_s)
        assert error_of(answer) == (504, "deadline_exceeded")
        assert f"it had {0.05 if theirs else 0.1:g} s" in answer.json["error"]["why"]
        assert ("scan.timeout_s" in answer.json["error"]["next_step"]) is not theirs
        await until(lambda: len(port.canceled) == len(port.tasks))  # its time may be over before anybody has it

    play(tmp_path, scenario, timeout_s=0.1)


# Errors before the first row


@pytest.mark.parametrize(
    "wrong",
    [
        {"sorces": []},
        {"sql": ""},
        {"sql": "  "},
        {"sql": 7},
        {"sources": "a"},
        {"format": "xml"},
        {"max_rows": 0},
        {"files_per_work": 0},
        {"timeout_s": 0},
        {"timeout_s": float("inf")},
        {"timeout_s": float("nan")},
        {"timeout_s": 1e9},
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_says_why(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        answer = await port.ask(**wrong)
        assert error_of(answer) == (400, "invalid_argument")
        assert answer.json["error"]["why"]
        assert port.tasks == {}

    play(tmp_path, scenario)


def test_a_body_that_is_no_json_is_refused(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        client = Client(b"select 1")
        await port.app(client.scope, client.receive, client.send)
        assert error_of(client.answer()) == (400, "invalid_argument")

    play(tmp_path, scenario)


def test_a_source_that_finds_nothing_is_not_found(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        answer = await port.ask(sources=[f"{tmp_path}/nothing/*.parquet"])
        assert error_of(answer) == (404, "not_found")
        assert "nothing/*.parquet" in answer.body.decode()

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "error, status",
    [
        (WRONG_SQL, 422),
        (WorkError(ErrorCode.RESOURCE_EXHAUSTED, "more than 9 rows", retryable=False), 429),
        (WorkError(ErrorCode.UNAVAILABLE, "bad luck"), 502),  # four times
    ],
)
def test_a_work_that_fails_is_told_with_the_status_of_its_error(tmp_path: Path, error: WorkError, status: int) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=error)
        port.made_of["a"] = NEVER
        answer = await port.ask()
        assert answer.status == status
        assert error.message in answer.json["error"]["why"]

    play(tmp_path, scenario)


def test_rows_without_a_form_in_csv_are_refused_before_the_first(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=_pa.table({"deep": [[1]]}), b=numbers(1))
        answer = await port.ask(format="csv")
        assert error_of(answer) == (400, "invalid_argument")
        assert "column 'deep' is list" in answer.json["error"]["why"]

    play(tmp_path, scenario)


def test_without_a_worker_the_answer_is_that_there_is_none(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        answer = await port.ask()
        assert error_of(answer) == (503, "no_worker")
        assert answer.json["error"]["retryable"]

    play(tmp_path, scenario, with_worker=False, wait_limit_s=0.01)


def test_a_coordinator_on_its_way_out_sends_clients_elsewhere(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1))
        port.service.close()
        assert error_of(await port.ask()) == (503, "unavailable")

    play(tmp_path, scenario)


def test_time_that_is_over_cancels_the_query_and_is_told(tmp_path: Path, deadline: Deadline) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=NEVER, b=numbers(1))
        asking = asyncio.create_task(port.ask(timeout_s=HOURS_S))
        await until(lambda: port.fetched == 1)
        deadline.comes()
        answer = await asking
        assert error_of(answer) == (504, "deadline_exceeded")
        assert "it had 10000 s" in answer.json["error"]["why"]
        await until(lambda: len(port.canceled) == 1)
        assert port.canceled[0] in answer.json["error"]["what"]

    play(tmp_path, scenario)


def test_looking_for_files_takes_of_the_time_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(pattern: str, border: object) -> Any:
        await asyncio.Event().wait()

    async def scenario(port: Port) -> None:
        monkeypatch.setattr(port.objects, "find", find)
        assert error_of(await port.ask(timeout_s=0.05)) == (504, "deadline_exceeded")

    play(tmp_path, scenario)


@pytest.mark.parametrize("timeout_s", [None, 20.0])
def test_somebody_elses_timeout_is_not_the_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float | None
) -> None:
    async def find(pattern: str, border: object) -> Any:
        raise TimeoutError("the object store")

    async def scenario(port: Port) -> None:
        monkeypatch.setattr(port.objects, "find", find)
        assert error_of(await port.ask(timeout_s=timeout_s)) == (500, "internal")

    play(tmp_path, scenario)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_other_methods_are_told_which_one_works(tmp_path: Path, method: str) -> None:
    async def scenario(port: Port) -> None:
        client = Client(b"", method=method)
        await port.app(client.scope, client.receive, client.send)
        answer = client.answer()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")

    play(tmp_path, scenario)


# Errors after the first row


def test_an_error_after_the_first_rows_cuts_the_connection(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=WRONG_SQL)
        async with served(port.app) as server, connected(server) as client:
            body = port.body()
            head = f"POST /v1/scan HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n"
            client.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'{"n":1}\n' in answer
        assert not answer.endswith(b"0\r\n\r\n")

    play(tmp_path, scenario, window=1)


def test_a_whole_answer_ends_as_such(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=EMPTY)
        async with served(port.app) as server, connected(server) as client:
            body = port.body()
            head = f"POST /v1/scan HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            client.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            answer = await client.rest()
        assert answer.endswith(b'8\r\n{"n":1}\n\r\n0\r\n\r\n')

    play(tmp_path, scenario)


def test_an_answer_that_was_begun_and_failed_is_never_completed(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=WRONG_SQL)
        client = Client(port.body())
        with pytest.raises(AnswerCutOffError):
            await port.app(client.scope, client.receive, client.send)
        assert client.body == b'{"n":1}\n'
        assert not client.is_complete

    play(tmp_path, scenario, window=1)


def test_an_answer_that_was_begun_and_took_too_long_is_never_completed(tmp_path: Path, deadline: Deadline) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=NEVER)
        client = Client(port.body(timeout_s=HOURS_S))
        asking = asyncio.create_task(port.app(client.scope, client.receive, client.send))
        await until(lambda: client.body != b"")
        deadline.comes()
        with pytest.raises(AnswerCutOffError):
            await asking
        assert not client.is_complete

    play(tmp_path, scenario)


def test_parts_that_do_not_fit_together_break_the_answer_off(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=_pa.table({"m": [1]}), c=numbers(2))
        client = Client(port.body())
        with pytest.raises(AnswerCutOffError):
            await port.app(client.scope, client.receive, client.send)
        assert not client.is_complete

    play(tmp_path, scenario)


# The description


def test_the_description_tells_what_to_send_and_what_comes(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        document = port.app.openapi()
        operation = document["paths"]["/v1/scan"]["post"]
        assert operation["description"].startswith("Run one SELECT over many Parquet files")
        assert set(operation["responses"]["200"]["content"]) == {
            "application/vnd.apache.arrow.stream",
            "application/x-ndjson",
            "text/csv",
        }
        assert {"400", "404", "422", "503", "504"} <= set(operation["responses"])
        assert [each["name"] for each in operation["parameters"]] == ["X-Scope-OrgID"]
        fields = document["components"]["schemas"]["ScanBody"]["properties"]
        assert (
            fields.keys()
            == json.loads(port.body(ts_column=1, merge=1, with_filename=1, max_rows=1, timeout_s=1, format=1)).keys()
        )
        assert all(field["description"] for field in fields.values())

    play(tmp_path, scenario)


# Names that nothing can have


ODD_NAMES = [
    "/lake/\ud800.parquet",
    "/lake/a\0b.parquet",
    "/" + "a" * 5000,
    "s3://lake/\udc80",
    "\ud800",
    "s3://\ud800",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_source_that_nothing_can_be_called_is_refused_and_shown_escaped(tmp_path: Path, name: str) -> None:
    async def scenario(port: Port) -> None:
        answer = await port.ask(sources=[name])
        assert error_of(answer) == (400, "invalid_argument")
        assert answer.json["error"]["what"].isprintable()

    play(tmp_path, scenario)


def test_a_fifo_is_refused_at_once_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1, 2))
        os.mkfifo(port.lake / "odd.parquet")
        answer = await port.ask(sources=[str(port.lake / "odd.parquet")])
        assert error_of(answer) == (400, "invalid_argument")
        assert "it is a FIFO" in answer.json["error"]["why"]
        assert (await port.ask()).status == 200

    play(tmp_path, scenario)
