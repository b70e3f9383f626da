"""What a process loads before anybody asks it anything: what it needs for that, and no more.

Python itself tells what it imports (`PYTHONPROFILEIMPORTTIME`), so that real processes are looked at as they are.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE
from quarterdeck.stores.data_folder import announced
from tests.e2e.crew import until

pytestmark = pytest.mark.xdist_group("e2e-light-feet")

NOT_IN_A_PROCESS: Final = {
    "alembic",  # a database that is there already
    "duckdb",  # it runs in processes of its own
    "llvmlite",
    "mako",  # Alembic's
    "numba",  # kernels are loaded as machine code
    "psycopg",
    "pyarrow.dataset",
    "pyarrow.flight",
    "pydantic.v1.main",
    "pygments",
    "rich.console",
    "sqlalchemy.dialects.postgresql",
}
NOT_ON_A_FIRST_START: Final = NOT_IN_A_PROCESS - {"alembic", "mako", "sqlalchemy.dialects.postgresql"}
"""Alembic loads Postgres' dialect, whatever the database is."""
NOT_IN_A_WORKER: Final = {*NOT_IN_A_PROCESS, "sqlalchemy"}
NOT_IN_A_COMMAND: Final = NOT_IN_A_WORKER - {"rich.console"} | {
    "asyncio",
    "fastapi",
    "grpc",
    "llvmlite",
    "numba",
    "numpy",
    "obstore",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "structlog",
    "uvicorn",
}
_IMPORTED: Final = re.compile(r"^import time:[ \d]+\|[ \d]+\| +(\S+)$", re.MULTILINE)


def imported(told: str) -> set[str]:
    found = set(_IMPORTED.findall(told))
    assert "quarterdeck.command" in found, "it tells what it imports"
    return found


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Generator[dict[str, str]]:
    """A process that tells what it imports, from when it is up; gives its addresses."""
    command = [sys.executable, "-m", "quarterdeck", *arguments, "--data-dir", str(folder), "--http-port", "0"]
    with folder.with_suffix(".told").open("wb") as told:
        process = subprocess.Popen(command, stderr=told, env=telling(folder.parent))
    try:
        until(lambda: (announced(folder) or {}).get("pid") == process.pid, "it is up")
        found = announced(folder) or {}
        yield {name: str(value) for name, value in found.items()}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def telling(run_dir: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPROFILEIMPORTTIME": "1", RUN_DIR_VARIABLE: str(run_dir)}


def is_ready(url: str) -> bool:
    with contextlib.suppress(OSError), urlopen(f"{url}/ready") as response:
        return bool(json.load(response))
    return False


def test_ready_processes_have_loaded_what_they_need_and_no_more(tmp_path: Path) -> None:
    kept, light = tmp_path / "kept", tmp_path / "light"
    with running(kept, "coordinator", "--control-port", "0"):
        at_first = imported(kept.with_suffix(".told").read_text())  # it has made the database
    with (
        running(kept, "coordinator", "--control-port", "0") as coordinator,
        running(light, "worker", "--join", coordinator["control"]) as worker,
    ):
        until(lambda: is_ready(coordinator["http"]) and is_ready(worker["http"]), "both are ready")
        in_coordinator = imported(kept.with_suffix(".told").read_text())
        in_worker = imported(light.with_suffix(".told").read_text())
    too_much = (at_first & NOT_ON_A_FIRST_START, in_coordinator & NOT_IN_A_PROCESS, in_worker & NOT_IN_A_WORKER)
    assert too_much == (set(), set(), set())


@pytest.mark.parametrize("command", ["--help", "status", "token"])
def test_a_command_loads_no_library_of_the_processes(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "quarterdeck", command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=telling(tmp_path),
    )
    too_much = imported(done.stderr) & NOT_IN_A_COMMAND
    assert too_much == set()
