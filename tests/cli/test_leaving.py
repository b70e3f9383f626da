"""How a command ends that has asked a bucket, or has Arrow's threads."""

import subprocess
import sys

import pytest

COMMAND = """
import asyncio
import sys

import obstore
from obstore.store import S3Store

from quarterdeck.cli.main import run

STORE = S3Store(
    "bucket", endpoint="http://127.0.0.1:1", allow_http=True, access_key_id="a", secret_access_key="b", region="eu",
    retry_config={"max_retries": 0},
)


async def ask() -> None:
    await obstore.head_async(STORE, "x")


def command() -> int:
    loop = asyncio.new_event_loop()
    calls = [loop.create_task(ask()) for _ in range(200)]
    loop.run_until_complete(asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED))
    sys.stdout.write("so far")
    HOW


run(command)
"""


@pytest.mark.parametrize("how, code", [("return 69", 69), ("raise SystemExit(65)", 65), ("raise SystemExit", 0)])
def test_the_exit_code_is_the_commands_though_calls_to_a_bucket_are_under_way(how: str, code: int) -> None:
    """The interpreter's own end would be aborted by threads that bring answers."""
    command = [sys.executable, "-c", COMMAND.replace("HOW", how)]
    for _ in range(3):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stdout) == (code, "so far"), ended.stderr


TORN_DOWN = """
import atexit

LOADED
from quarterdeck.cli.main import run

atexit.register(print, "the interpreter is torn down")
run(lambda: 3)
"""


@pytest.mark.parametrize("module", ["obstore", "pyarrow"])
def test_a_command_with_threads_that_nobody_can_end_is_not_torn_down(module: str) -> None:
    command = [sys.executable, "-c", TORN_DOWN.replace("LOADED", f"import {module}")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
