"""What people are told about the token of their crew, also where it cannot be found by the address."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.cli.up import suggestions
from quarterdeck.command import app
from quarterdeck.local_crew.crew_plan import CrewPlan, CrewRequest
from quarterdeck.security.local_processes import RUN_DIR_VARIABLE, LocalProcesses
from quarterdeck.security.tokens import SharedToken

URL, CONTROL = "http://127.0.0.1:7199", "127.0.0.1:7198"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path / "run"))
    return tmp_path / "run"


def commands(tmp_path: Path) -> list[str]:
    plan = replace(
        CrewPlan.of(CrewRequest(2, tmp_path / "data"), configuration(CAPABILITIES)), token_file=tmp_path / "token"
    )
    return suggestions(
        plan, [command for one in CAPABILITIES for command in one.to_try], URL, CONTROL, LocalProcesses()
    )


def test_what_up_proposes_can_be_pasted_whatever_the_folders_are_called(tmp_path: Path, run_dir: Path) -> None:
    run_dir.mkdir()
    run_dir.chmod(0o777)  # so that the token is named
    folder = tmp_path / "it's a földer"
    told = commands(folder)
    assert all(shlex.split(command)[-1] in (f"{folder}/token", f"token_file={folder}/token") for command in told)
    assert f"{folder}/data/one-more" in shlex.split(told[-1])


@pytest.mark.usefixtures("run_dir")
def test_what_up_proposes_names_no_token_that_commands_find(tmp_path: Path) -> None:
    SharedToken.kept_in(tmp_path / "token")
    assert LocalProcesses().announce([("127.0.0.1", 7199)], tmp_path / "token")
    told = commands(tmp_path)
    assert f"quarterdeck status --url {URL}" in told
    assert "token" not in " ".join(told).replace(str(tmp_path), "")


def test_what_up_proposes_works_where_the_folder_is_somebody_elses(tmp_path: Path, run_dir: Path) -> None:
    run_dir.mkdir()
    run_dir.chmod(0o777)
    told = commands(tmp_path)
    assert f"quarterdeck status --url {URL} --token-file {tmp_path}/token" in told
    assert told[-1].endswith(f"--set token_file={tmp_path}/token")
    asking = [command for command in told if "--url" in command]
    assert all(command.endswith(f"--token-file {tmp_path}/token") for command in asking)


def test_a_folder_that_cannot_be_trusted_is_told_with_what_to_do(run_dir: Path) -> None:
    run_dir.mkdir()
    run_dir.chmod(0o755)
    result = CliRunner().invoke(app, ["token", "--url", URL])
    assert result.exit_code != 0
    assert f"{run_dir} is not a folder of this user that nobody else can enter" in result.stderr
    assert RUN_DIR_VARIABLE in result.stderr
    assert "--data-dir" in result.stderr


def test_where_nothing_is_in_the_way_it_is_told_that_nobody_is_there(run_dir: Path) -> None:
    result = CliRunner().invoke(app, ["token", "--url", URL])
    assert "no process of yours on this machine listens there" in result.stderr
    assert not run_dir.exists()
