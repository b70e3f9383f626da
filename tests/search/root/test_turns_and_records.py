"""Searches have their turns, and people see what runs, what waits and what became of each."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.crew.query_log import QueryState
from quarterdeck.search.root import service as service_module
from quarterdeck.search.root.planning import plan
from tests.http.asked import until
from tests.search.root.searched import PlayedWorkers, Root, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


def test_a_service_that_is_closed_takes_no_search(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(1)
        root.service.close()
        with pytest.raises(QuarterdeckError, match="shutting down") as raised:
            await root.search()
        assert raised.value.code is ErrorCode.UNAVAILABLE

    play(tmp_path, scenario)


def test_a_search_that_is_planned_while_the_service_closes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(root: Root) -> None:
        async def planned(*given: Any) -> object:
            root.service.close()
            return await plan(*given)

        numbers = root.put_numbered(4)
        monkeypatch.setattr(service_module, "plan", planned)
        assert (await root.search()).numbers == numbers

    play(tmp_path, scenario)


def test_one_search_more_than_allowed_waits_for_its_turn(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(1)
        async with root.service.opened(root.request()):
            waiting = asyncio.create_task(root.search())
            await until(lambda: root.service.admission.depth == 1)
            assert [query.state for query in root.service.log] == [QueryState.RUNNING, QueryState.QUEUED]
            assert len(root.service.told()) == 1
        assert (await waiting).numbers == numbers

    play(tmp_path, scenario, at_once=1)


def test_a_search_whose_time_is_over_before_its_turn_says_which_setting_it_is(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(1)
        async with root.service.opened(root.request()):
            with pytest.raises(QuarterdeckError, match=r"search\.searches_at_once") as raised:
                await root.search(timeout_s=0.05)
            assert raised.value.code is ErrorCode.DEADLINE_EXCEEDED

    play(tmp_path, scenario, at_once=1)


def test_the_time_that_a_search_waits_in_line_is_taken_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_s: list[float] = []
    limit = service_module.time_limit

    def seen(limit_s: float, late: Callable[[], QuarterdeckError]) -> AbstractAsyncContextManager[asyncio.Timeout]:
        given_s.append(limit_s)
        return limit(limit_s, late)

    monkeypatch.setattr(service_module, "time_limit", seen)

    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(1)
        async with root.service.opened(root.request(timeout_s=100.0)):
            waiting = asyncio.create_task(root.search(timeout_s=100.0))
            await until(lambda: root.service.admission.oldest_s > 0.05)
        assert (await waiting).numbers == numbers
        at_once, later = given_s
        assert 0.0 < later < at_once - 0.04 < at_once <= 100.0

    play(tmp_path, scenario, at_once=1)


def test_a_search_that_waits_while_the_service_closes_keeps_its_place(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(1)
        async with root.service.opened(root.request()):
            waiting = asyncio.create_task(root.search())
            await until(lambda: root.service.admission.depth == 1)
            root.service.close()
        assert (await waiting).numbers == numbers

    play(tmp_path, scenario, at_once=1)


def test_a_search_that_comes_while_the_service_closes_does_not_wait_for_a_place(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(1)
        async with root.service.opened(root.request()):
            root.service.close()
            with pytest.raises(QuarterdeckError, match="shutting down"):
                await root.search()

    play(tmp_path, scenario, at_once=1)


def test_the_log_of_queries_has_what_runs_and_what_ended(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(2)
        await root.search("1")
        async with root.service.opened(root.request("2")):
            states = [(record["query_id"], record["state"], record["query"]) for record in root.service.told()]
            assert states == [("q2", "running", "2"), ("q1", "ok", "1")]
            found = root.service.log.find(QueryId("q1"))
            assert found is not None
            assert found.details is not None
            told = {name: found.details[name] for name in ("chunks", "chunks_done", "matches")}
            assert told == {"chunks": 2, "chunks_done": 2, "matches": 1}

    play(tmp_path, scenario, PlayedWorkers(1))
