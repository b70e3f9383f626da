"""Work that stops when its client goes."""

import asyncio
import copy
import gc

import pytest
from fastapi import FastAPI, Request
from starlette.types import Message

from quarterdeck.core.errors import ErrorCode
from quarterdeck.http.clientgone import ClientGoneError, run_while_connected
from quarterdeck.http.errors import add_error_handlers
from tests.http.asked import connected, served


class Line:
    """A client's connection: what `receive()` says."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.body = [b"some", b"body"]

    async def receive(self) -> Message:
        if self.body:
            return {"type": "http.request", "body": self.body.pop(), "more_body": bool(self.body)}
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Work:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cleaned_up = False

    async def run(self) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up may take a while
            self.cleaned_up = True
        return "never"


def test_the_result_comes_through() -> None:
    async def test() -> str:
        async def work() -> str:
            await asyncio.sleep(0)
            return "aye"

        return await run_while_connected(Line().receive, work())

    assert asyncio.run(test()) == "aye"


def test_an_error_comes_through() -> None:
    async def test() -> None:
        async def work() -> None:
            raise ValueError("of the work")

        await run_while_connected(Line().receive, work())

    with pytest.raises(ValueError, match="of the work"):
        asyncio.run(test())


def test_work_has_stopped_when_its_client_has_gone() -> None:
    async def test() -> None:
        line, work = Line(), Work()
        running = asyncio.create_task(run_while_connected(line.receive, work.run()))
        await work.begun.wait()
        assert not running.done()
        line.gone.set()
        with pytest.raises(ClientGoneError) as gone:
            await running
        assert gone.value.code is ErrorCode.CANCELED
        assert work.cleaned_up

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_result_that_is_there_counts_although_the_client_goes() -> None:
    async def test() -> str:
        line = Line()
        line.body.clear()
        line.gone.set()

        async def work() -> str:
            return "aye"

        return await run_while_connected(line.receive, work())

    assert asyncio.run(test()) == "aye"


def test_work_has_stopped_when_its_handler_is_canceled() -> None:
    async def test() -> None:
        work = Work()
        running = asyncio.create_task(run_while_connected(Line().receive, work.run()))
        await work.begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert work.cleaned_up

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_broken_server_is_not_a_client_that_has_gone() -> None:
    async def test() -> None:
        work = Work()

        async def receive() -> Message:
            await work.begun.wait()
            raise RuntimeError("receive broke")

        with pytest.raises(RuntimeError, match="receive broke"):
            await run_while_connected(receive, work.run())
        assert work.cleaned_up

    asyncio.run(asyncio.wait_for(test(), 10))


def test_the_error_can_be_copied() -> None:
    assert str(copy.copy(ClientGoneError())) == str(ClientGoneError())


def test_a_plain_handler_stops_when_its_client_hangs_up() -> None:
    async def test() -> None:
        app, work, stopped = FastAPI(), Work(), asyncio.Event()
        unexpected: list[Exception] = []
        add_error_handlers(app, unexpected.append)

        async def handler(request: Request) -> str:
            try:
                return await run_while_connected(request.receive, work.run())
            finally:
                stopped.set()

        app.add_api_route("/", handler)
        async with served(app) as server:
            async with connected(server) as client:
                client.get("/")
                await work.begun.wait()
            await stopped.wait()
        assert work.cleaned_up
        assert unexpected == []

    asyncio.run(asyncio.wait_for(test(), 10))


def test_the_rest_of_a_body_is_no_client_that_goes() -> None:
    async def test() -> str:
        line, done = Line(), asyncio.Event()

        async def receive() -> Message:
            message = await line.receive()
            if not line.body:
                asyncio.get_running_loop().call_later(0, done.set)
            return message

        async def work() -> str:
            await done.wait()
            for _ in range(5):  # whoever takes a part of the body for the end has time to say so
                await asyncio.sleep(0)
            return "aye"

        return await run_while_connected(receive, work())

    assert asyncio.run(asyncio.wait_for(test(), 10)) == "aye"


def test_what_fails_while_it_is_cleaned_up_is_not_left_for_asyncio_to_complain_about() -> None:
    complaints: list[object] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        line, begun = Line(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError("cannot be cleaned up")

        running = asyncio.create_task(run_while_connected(line.receive, work()))
        await begun.wait()
        line.gone.set()
        with pytest.raises(ClientGoneError):
            await running
        del running
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(test(), 10))
    assert complaints == []
