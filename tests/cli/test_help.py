"""Help is there, teaches, and comes at once."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarterdeck.cli.main import app

COMMANDS = (
    "demo",
    "up",
    "status",
    "token",
    "search",
    "scan",
    "import",
    "query",
    "explain",
    "coordinator",
    "worker",
    "recruiter",
    "warm",
    "simulate",
)
HEAVY = (
    "aiohttp",
    "asyncio",
    "duckdb",
    "fastapi",
    "grpc",
    "http.client",
    "numba",
    "numpy",
    "obstore",
    "pyarrow",
    "pydantic",
    "rich",
    "ssl",
    "starlette",
    "structlog",
    "uvicorn",
    "yaml",
)
LARGEST_RATIO = 1.6


def test_every_command_is_listed_in_one_line() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    lines = [line.split(None, 1) for line in result.stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert tuple(line[0] for line in lines[: len(COMMANDS)]) == COMMANDS
    assert all(line[1].endswith(".") and not line[1].endswith("...") for line in lines[: len(COMMANDS)])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_teaches_by_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"  quarterdeck {command}" in result.stdout.split("Examples:")[1].split("Options:")[0]
    assert "lifeline" not in result.stdout


@pytest.mark.parametrize("arguments", [("--help",), *((command, "--help") for command in COMMANDS)])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    script = (
        "import json, sys\nfrom quarterdeck.cli.main import app\n"
        f"app({list(arguments)!r}, standalone_mode=False)\n"
        "print('\\n' + json.dumps(list(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(told.stdout.splitlines()[-1]))
    assert not loaded & set(HEAVY)


def test_help_takes_little_more_than_python_and_the_library_it_is_written_with() -> None:
    """In processor time, the least of several: how fast the machine is, and what else it does, counts for both."""
    helped: list[float] = []
    loaded: list[float] = []
    for _ in range(5):
        helped.append(cpu_s([str(Path(sys.executable).with_name("quarterdeck")), "--help"]))
        loaded.append(cpu_s([sys.executable, "-c", "import typer.main"]))
    assert min(helped) < LARGEST_RATIO * min(loaded)


def cpu_s(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
