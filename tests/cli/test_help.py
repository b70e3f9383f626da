"""Help is there, teaches, and comes at once."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from quarterdeck.command import app
from tests.cli.terminal import at_terminal, plain

COMMANDS = (
    "demo",
    "up",
    "status",
    "token",
    "import",
    "sample-data",
    "metrics",
    "query",
    "explain",
    "scan",
    "search",
    "coordinator",
    "worker",
    "recruiter",
    "warm",
    "simulate",
    "completion",
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
        "import json, sys\nfrom quarterdeck.command import app\n"
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


@pytest.mark.parametrize("columns", [60, 100, 150, 200])
def test_help_uses_the_width_of_the_terminal(columns: int) -> None:
    with at_terminal("search", "--help", columns=columns, rows=50) as terminal:
        lines = plain(terminal.read_all()).replace("\r", "").split("\n")
    widest = max(map(len, lines))
    assert columns - 12 < widest <= columns


def test_help_in_a_pipe_is_eighty_columns_wide_unless_columns_says_otherwise() -> None:
    def widest(**more: str) -> int:
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | more
        told = subprocess.run(
            [sys.executable, "-m", "quarterdeck", "search", "-h"], capture_output=True, env=environment, check=True
        )
        return max(map(len, told.stdout.decode().splitlines()))

    assert 70 < widest() <= 80
    assert 110 < widest(COLUMNS="120") <= 120


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_command_fit_into_eighty_columns(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).stdout
    assert not [line for line in told.splitlines() if len(line) > 80]


@pytest.mark.parametrize("command", COMMANDS)
def test_one_time_text_is_told_in_the_same_words_everywhere(command: str) -> None:
    told = " ".join(CliRunner().invoke(app, [command, "--help"]).stdout.split())
    found = told.partition("A TIME")[2].partition(". ")[0]
    assert not found or found.removeprefix(", here and inside the search,").startswith(
        " is now, now-2h, -2h, 2026-01-31, 2026-01-31T12:00:00+01:00 (UTC without a zone) or seconds since 1970"
    )
    assert "local time" not in told


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_a_short_h_is_help_everywhere(arguments: tuple[str, ...]) -> None:
    short, long = (CliRunner().invoke(app, [*arguments, option]) for option in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    assert "-h, --help" in short.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_argument_says_what_it_is_for(command: str) -> None:
    group = cast("Any", get_command(app))
    parameters: list[Any] = group.get_command(group.context_class(group), command).params
    assert [one.name for one in parameters if not (one.help or "").strip() and not one.hidden] == []


# Completion, with the variables that a shell sets


def completed(shell: str, line: str) -> list[str]:
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environment = {**os.environ, "_QUARTERDECK_COMPLETE": f"complete_{shell}", **asked}
    script = (
        "import atexit, json, sys\nsys.argv = ['quarterdeck']\n"
        "atexit.register(lambda: sys.stderr.write(json.dumps(list(sys.modules))))\n"
        "from quarterdeck.command import main\nmain()"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert not set(json.loads(told.stderr)) & set(HEAVY), "a shell waits for it at each press of Tab"
    return told.stdout.splitlines()


def test_bash_completes_commands_options_and_their_values() -> None:
    assert completed("bash", "quarterdeck se") == ["search"]
    assert set(COMMANDS) <= set(completed("bash", "quarterdeck "))
    assert completed("bash", "quarterdeck query --format ") == ["chart", "table", "json", "csv"]
    assert "--time-field" in completed("bash", "quarterdeck search --t")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_show_what_an_option_is_for(shell: str) -> None:
    told = "\n".join(completed(shell, "quarterdeck query --forma"))
    assert "--format" in told
    assert "for a range a chart on a terminal" in told, "a default in brackets is no markup"
    assert "search" in "\n".join(completed(shell, "quarterdeck sea"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert f"_QUARTERDECK_COMPLETE=complete_{shell}" in result.stdout


def test_bash_takes_the_script_and_completes_with_it() -> None:
    script = CliRunner().invoke(app, ["completion", "bash"]).stdout
    folder = Path(sys.executable).parent
    line = (
        f"{script}\nCOMP_WORDS=(quarterdeck impo); COMP_CWORD=1; _quarterdeck_completion quarterdeck; echo $COMPREPLY"
    )
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    told = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)
    assert told.stdout == "import\n", told.stderr
