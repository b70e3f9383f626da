"""What the tests of the server and of the client share."""

import asyncio
from typing import Any

import pytest
import trustme
import uvloop

from quarterdeck.http import client as client_module
from tests.http.asked import Run
from tests.http.client_scene import CONNECTION, Clock


@pytest.fixture(scope="module", params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both loops that a process may run on."""
    request.param(asyncio.sleep(0))  # uvloop makes a pipe, once, and keeps it
    return request.param


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """For every connection of the test."""
    virtual = Clock()

    def made(loop: asyncio.AbstractEventLoop, stall_timeout_s: float) -> Any:
        virtual.connections.append(CONNECTION(virtual, stall_timeout_s))
        return virtual.connections[-1]

    monkeypatch.setattr(client_module, "_Connection", made)
    return virtual


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes came with each read of a connection."""
    sizes: list[int] = []
    plain = CONNECTION.data_received

    def data_received(self: Any, data: bytes) -> None:
        sizes.append(len(data))
        plain(self, data)

    monkeypatch.setattr(CONNECTION, "data_received", data_received)
    return sizes


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()
