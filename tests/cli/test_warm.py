"""`quarterdeck warm`, what it says, and how `up` has everything compiled before it starts anything."""

import copy
import io
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.cli import compiled_code
from quarterdeck.cli import warm as warming
from quarterdeck.cli.compiled_code import compile_first, everything
from quarterdeck.cli.warm import Screen, shown_place
from quarterdeck.command import app
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines import code_folder
from quarterdeck.engines.code_folder import CodeFolder, NoPlaceError
from quarterdeck.engines.first_compile import CompiledMark, Progress
from quarterdeck.metrics.promql.kernels import compile as compiling
from quarterdeck.metrics.warming import warm_all
from quarterdeck.search.engine.line_code import SCAN_LINES
from quarterdeck.terminal.stop_requests import StopRequests


@pytest.fixture
def console() -> Console:
    """What is said goes to its file; it is no terminal."""
    return Console(file=io.StringIO(), width=200, highlight=False, soft_wrap=True)


def said(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture(autouse=True)
def nothing_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_folder, "_WRITTEN", set[Path]())
    monkeypatch.setattr(code_folder, "_ONLY", [])
    monkeypatch.setattr(code_folder, "_TOLD", set[object]())


# What is said


def test_single_lines_say_how_far_it_is_where_there_is_no_terminal(console: Console, tmp_path: Path) -> None:
    with Screen(console, say_s=0) as screen:
        screen.moved("b", Progress(0, 1))
        screen.moved("a", Progress(0, 36))
        screen.moved("a", Progress(7, 36, 7))
        screen.moved("b", Progress(1, 1, 1))
        CodeFolder(tmp_path / "code" / "kernels-1").write("code", b"")
        screen.moved("a", Progress(36, 36, 36))
        screen.conclude(38.4)
    assert said(console) == [
        "compiling for this machine, once; this takes a minute or so",
        "compiling 0 of 37",
        "compiling 7 of 37",
        "compiling 8 of 37",
        f"compiled 37 kernels in 38 s; they are kept in {tmp_path / 'code'}",
    ]


def test_lines_come_at_sensible_intervals(console: Console) -> None:
    with Screen(console, say_s=3600) as screen:
        for done in range(37):
            screen.moved("a", Progress(done, 36, done))
    assert len(said(console)) == 1


def test_what_was_there_already_is_not_called_compiled(console: Console) -> None:
    with Screen(console) as screen:
        screen.moved("a", Progress(36, 36, 0))
        screen.conclude(1.0)
    assert said(console)[-1] == "nothing to compile: all kernels are there already"


def test_a_terminal_has_a_bar_and_in_the_end_only_the_answer() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, highlight=False, _environ={})
    with Screen(console) as screen:
        screen.moved("a", Progress(12, 36, 12))
        screen.conclude(12.0)
    text = "\n".join(said(console))
    assert "12/36" in text
    assert re.search(r"compiled 12 kernels in 12 s", text.rpartition("\x1b[2K")[2])


@pytest.mark.parametrize("process, who", [(4711, "process 4711"), (None, "another process")])
def test_one_that_waits_says_for_what(console: Console, process: int | None, who: str) -> None:
    with Screen(console) as screen:
        screen.waits(process)
    assert said(console) == [f"{who} compiles the same code for this machine; waiting until it is done"]


def test_folders_beside_the_sources_are_told_as_the_package() -> None:
    package = Path(compiled_code.__file__).parents[1]
    assert shown_place(package / "metrics" / "api" / "__pycache__") == str(package)
    assert shown_place(Path("/data/code/kernels-1")) == "/data/code"


# The command


def test_the_mark_knows_all_sources_that_are_compiled() -> None:
    warm_all()
    compiled = {Path(source).resolve() for source in compiling.all_sources()}
    known = {source.resolve() for source in everything(CAPABILITIES).sources}
    inside = Path(compiled_code.__file__).parents[1].resolve()
    assert {source for source in compiled if source.is_relative_to(inside)} <= known
    for module in (SCAN_LINES.module, *SCAN_LINES.sources):
        assert inside.parent / Path(*module.split(".")).with_suffix(".py") in known


def test_where_nothing_can_be_kept_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    monkeypatch.setattr(warming, "_compile", None)
    told = CliRunner().invoke(app, ("warm", "--data-dir", str(tmp_path / "away" / ".." / "data")))
    assert told.exit_code == 65
    assert f"compiled code can be kept nowhere: everybody can write {tmp_path / 'data'}" in told.stderr


def test_it_compiles_into_the_data_folder_and_says_so_and_the_next_time_there_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_little(_: object, screen: Screen) -> None:
        for folder in everything(CAPABILITIES).folders():
            folder.write("code", b"")
        screen.moved("a", Progress(1, 1, 1))

    monkeypatch.setattr(warming, "_compile", compile_little)
    told = CliRunner().invoke(app, ("warm", "--data-dir", str(tmp_path / "data")))
    assert told.exit_code == 0
    assert told.stdout.splitlines()[-1] == f"compiled 1 kernel in 0 s; they are kept in {tmp_path / 'data' / 'code'}"
    assert everything(CAPABILITIES).is_set()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def compile_nothing(_: object, __: Screen) -> None:
        return None

    monkeypatch.setattr(warming, "_compile", compile_nothing)
    monkeypatch.setattr(CodeFolder, "write", full)
    told = CliRunner().invoke(app, ("warm", "--data-dir", str(tmp_path / "data")))
    assert told.exit_code != 0
    assert "what was compiled could not be kept" in told.stderr


# Before a crew is started


class _Process:
    """Instead of `quarterdeck warm`: what is run."""

    def __init__(self, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compiled_code, "QUARTERDECK", (sys.executable, "-S", "-E", "-c", script))


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledMark:
    """Of all there is to compile: nothing is yet."""
    code_folder.keep_only_in(tmp_path / "code")
    mark = CompiledMark(tmp_path / "source.py", ())

    def fixed(_: object) -> CompiledMark:
        return mark

    monkeypatch.setattr(compiled_code, "everything", fixed)
    return mark


def test_what_was_compiled_needs_no_process(
    mark: CompiledMark, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark.set()
    monkeypatch.setattr(subprocess, "Popen", None)
    with StopRequests() as stop:
        assert compile_first(CAPABILITIES, console, stop)
    assert said(console) == []


def test_one_process_compiles_before_anything_is_started(
    mark: CompiledMark, console: Console, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _Process("import sys; print(*sys.argv[1:3])", monkeypatch)
    with StopRequests() as stop:
        assert compile_first(CAPABILITIES, console, stop)
    assert capfd.readouterr().out == "warm --lifeline\n"


def test_one_that_fails_stops_the_start(mark: CompiledMark, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    _Process("import sys; sys.exit(3)", monkeypatch)
    with StopRequests() as stop, pytest.raises(QuarterdeckError, match="ended with exit code 3"):
        compile_first(CAPABILITIES, console, stop)


def test_one_that_is_killed_is_no_bug_and_the_signal_is_told(
    mark: CompiledMark, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Process("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", monkeypatch)
    with StopRequests() as stop, pytest.raises(QuarterdeckError, match=r"was ended by SIGKILL, .* memory") as caught:
        compile_first(CAPABILITIES, console, stop)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED


def test_who_wants_to_stop_need_not_wait_for_it(
    mark: CompiledMark, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Process("import sys; sys.stdin = open(int(sys.argv[3])); sys.stdin.read()", monkeypatch)
    with StopRequests() as stop:
        stop.number = 1
        assert not compile_first(CAPABILITIES, console, stop)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_bar_that_is_cut_short_leaves_a_terminal_with_a_cursor_and_a_line_of_its_own(
    is_stopped: bool, mark: CompiledMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), width=100, force_terminal=True, _environ={})
    _Process("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", monkeypatch)
    with StopRequests() as stop, suppress(QuarterdeckError):
        stop.number = int(is_stopped)
        compile_first(CAPABILITIES, terminal, stop)
    assert said(terminal) == ["\x1b[?25h"]


def test_where_nothing_can_be_kept_it_is_said_and_the_crew_is_started_all_the_same(
    mark: CompiledMark, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").write_text("no folder")
    monkeypatch.setattr(subprocess, "Popen", None)
    with StopRequests() as stop:
        assert compile_first(CAPABILITIES, console, stop)
    assert said(console)[0].startswith("compiled code can be kept nowhere, so each process compiles for itself")
    assert "Not a directory" in said(console)[1]


LIFELINE = """
import sys
from quarterdeck.cli import warm
warm._compile = lambda _, screen: (print("compiles", flush=True), sys.stdin.read())
warm.run((), warm.Path(sys.argv[1]), int(sys.argv[2]))
"""


def test_it_ends_when_whoever_started_it_is_gone(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", LIFELINE, str(tmp_path), str(ours)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(ours,),
        start_new_session=True,
        text=True,
    )
    os.close(ours)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "compiles\n"
    os.close(theirs)
    assert process.wait(60) == -9
    process.stdout.close()
    process.stdin.close()


def test_the_error_can_be_copied() -> None:
    error = NoPlaceError(["a", "b"])
    assert str(copy.copy(error)) == str(error)
