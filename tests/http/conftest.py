"""What the tests of the server share."""

import asyncio

import pytest
import uvloop

from tests.http.asked import Run


@pytest.fixture(scope="module", params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both loops that a process may run on."""
    request.param(asyncio.sleep(0))  # uvloop makes a pipe, once, and keeps it
    return request.param
