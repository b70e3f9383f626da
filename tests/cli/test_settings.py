"""Settings from the command line: how `--set` is read, and what is said of those that are wrong."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.command import app
from quarterdeck.config import InvalidSettingsError
from quarterdeck.config.host import cores, memory_bytes
from quarterdeck.local_crew.crew_plan import CrewPlan, CrewRequest
from quarterdeck.recruiter.settings import ReservationSettings
from quarterdeck.terminal.options import merge_flags, parse_settings


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, arguments, env=environment)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# How --set is read


def test_a_setting_is_a_name_and_a_value() -> None:
    assert parse_settings(["log-level=debug", "token_file=a=b"]) == {"log_level": "debug", "token_file": "a=b"}
    assert parse_settings(None) == {}


def test_a_dot_goes_one_level_down() -> None:
    assert parse_settings(["s3.region=r", "s3.endpoint=e"]) == {"s3": {"region": "r", "endpoint": "e"}}


@pytest.mark.parametrize("text", ["slots", "=3", " =3"])
def test_what_is_no_setting_is_an_error_of_use(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_settings([text])
    for command in ("worker", "coordinator", "up"):
        result = run(command, "--set", text)
        assert result.exit_code == 65
        assert "is not NAME=VALUE" in result.stderr


@pytest.mark.parametrize("texts", [["=hunter2"], ["s3=x", "s3.region=hunter2"]])
def test_an_error_of_use_does_not_repeat_a_value(texts: list[str]) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse_settings(texts)
    assert "hunter2" not in caught.value.message


def test_the_help_of_set_says_where_secrets_belong() -> None:
    for command in ("worker", "coordinator", "up"):
        assert "Put secrets into the environment or a file" in " ".join(run(command, "--help").stdout.split())


def test_a_flag_of_its_own_counts_before_set_and_one_that_was_not_given_does_not_count() -> None:
    assert merge_flags({"slots": "2", "node": "n"}, slots=3, node=None) == {"slots": 3, "node": "n"}


# What is said of wrong ones


def test_a_wrong_value_is_told_with_its_name_and_what_is_allowed() -> None:
    result = run("worker", "--set", "slots=zero")
    assert result.exit_code == 65
    first, problem, last = result.stderr.splitlines()
    assert first == "quarterdeck: the worker was not started, because its settings are wrong:"
    assert problem.startswith("  - worker.slots is 'zero' (")
    assert problem.endswith("; allowed is a whole number from 1")
    assert "docs/configuration.md" in last


def test_a_wrong_value_in_the_environment_is_told_with_the_name_of_the_variable() -> None:
    result = run("worker", QUARTERDECK_WORKER_SLOTS="-1")
    assert result.exit_code == 65
    assert "worker.slots is '-1' (the environment variable QUARTERDECK_WORKER_SLOTS)" in result.stderr


def test_unknown_names_in_a_file_are_told_with_their_lines_all_at_once(elsewhere: Path) -> None:
    (elsewhere / "crew.yaml").write_text("worker:\n  slotz: 3\ncaptain: 1\n")
    result = run("worker", "--config", "crew.yaml")
    assert result.exit_code == 65
    assert (
        "  - captain is not a section (crew.yaml, line 3); there are coordinator, worker and recruiter\n"
        in result.stderr
    )
    assert "  - worker.slotz is not a setting (crew.yaml, line 2); did you mean slots?\n" in result.stderr


def test_a_nested_setting_reaches_the_process() -> None:
    result = run("coordinator", "--set", "s3.endpoint=http://127.0.0.1:1")
    assert result.exit_code == 65
    assert "an endpoint without TLS takes s3.allow_http" in result.stderr


# A whole crew

SETTINGS = configuration(CAPABILITIES)


def plan(workers: int | None = 3, **fields: Any) -> CrewPlan:
    advice = [one.in_local_crew.load() for one in CAPABILITIES if one.in_local_crew is not None]
    return CrewPlan.of(CrewRequest(workers, Path("data"), **fields), SETTINGS, advice)


URL = "http://127.0.0.1:7070"


def values_of(arguments: list[str], flag: str) -> list[str]:
    return [value for name, value in pairwise(arguments) if name == flag]


def test_workers_of_a_crew_have_names_and_folders_of_their_own_and_join_the_coordinator(elsewhere: Path) -> None:
    crew = plan()
    assert crew.worker_names == ["worker-1", "worker-2", "worker-3"]
    assert crew.folder_of("worker-2") == elsewhere / "data" / "worker-2"
    arguments = crew.worker_arguments("127.0.0.1:7071")
    assert arguments[0] == "worker"
    assert values_of(arguments, "--join") == ["127.0.0.1:7071"]
    assert values_of(arguments, "--http-port") == ["0"]
    assert "worker_id=worker-2" in crew.worker_settings("worker-2", URL)


def test_workers_share_the_cores_and_all_processes_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.local_crew.crew_plan.cores", lambda: 8)
    monkeypatch.setattr("quarterdeck.local_crew.crew_plan.memory_bytes", lambda: 4000)
    crew = plan()
    assert crew.workers == 3
    sets = [crew.worker_settings(name, URL) for name in crew.worker_names]
    assert [next(text for text in given if text.startswith("slots=")) for given in sets] == [
        "slots=3",
        "slots=3",
        "slots=2",
    ]
    assert all("memory_bytes=1000" in given for given in (*sets, crew.coordinator_settings()))
    assert plan(workers=None).workers == 8


def test_a_crew_has_at_least_two_workers_and_each_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.local_crew.crew_plan.cores", lambda: 1)
    crew = plan(workers=None)
    assert crew.workers == 2
    assert "slots=1" in crew.worker_settings("worker-2", URL)
    assert cores() >= 1 <= memory_bytes()


def test_what_somebody_has_set_is_not_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_WORKER_MEMORY_BYTES", "8GiB")
    given = plan(settings=["worker.slots=7"]).worker_settings("worker-1", URL)
    assert [text for text in given if text.startswith(("slots", "memory"))] == ["slots=7"]
    coordinator = plan(settings=["coordinator.memory_bytes=2GiB"]).coordinator_settings()
    assert [text for text in coordinator if text.startswith("memory")] == ["memory_bytes=2GiB"]


def recruiting(crew: CrewPlan, name: str) -> list[str]:
    given = crew.worker_settings(name, URL)
    return [text for text in given if text.startswith("recruiter.")]


def test_all_workers_but_those_kept_back_can_be_recruited_and_register_again_when_they_were_left_alone() -> None:
    offered = [f"recruiter.urls={URL}", "recruiter.leave_when_abandoned=false"]
    assert [recruiting(plan(), name) for name in plan().worker_names] == [[], offered, offered]
    assert [recruiting(plan(keep_back=0), name) for name in plan().worker_names] == [offered] * 3
    assert [recruiting(plan(keep_back=9), name) for name in plan().worker_names] == [[]] * 3


def test_where_workers_can_be_recruited_may_be_set_and_those_kept_back_stay_so() -> None:
    crew = plan(settings=["recruiter.urls=http://else:1", "worker.recruiter.leave_when_abandoned=true"])
    given = ["recruiter.urls=http://else:1", "recruiter.leave_when_abandoned=true"]
    assert recruiting(crew, "worker-2") == given
    assert recruiting(crew, "worker-1") == [*given, "recruiter.urls="]
    kept_back = SETTINGS.load_worker(None, parse_settings(recruiting(crew, "worker-1")))
    assert kept_back.section(ReservationSettings).urls == ()


def test_settings_go_to_those_that_have_them() -> None:
    crew = plan(settings=["log_level=debug", "wait_limit_s=3", "worker.log_format=json"])
    coordinator = crew.coordinator_settings()
    worker = crew.worker_settings("worker-1", URL)
    assert coordinator[:3] == ["log_level=debug", "wait_limit_s=3", "log_format=console"]
    assert worker[:2] == ["log_level=debug", "log_format=json"]
    assert "log_format=console" not in worker
    assert crew.coordinator.wait_limit_s == 3


def test_a_coordinator_that_is_started_again_keeps_its_ports() -> None:
    crew = plan(http_port=0)
    assert values_of(crew.coordinator_arguments(), "--http-port") == ["0"]
    again = crew.coordinator_arguments({"http": "http://127.0.0.1:4567", "control": "127.0.0.1:4568"})
    assert values_of(again, "--http-port") == ["4567"]
    assert values_of(again, "--control-port") == ["4568"]


def test_a_coordinator_that_listens_everywhere_is_joined_on_this_machine() -> None:
    assert values_of(plan().worker_arguments("0.0.0.0:7071"), "--join") == ["127.0.0.1:7071"]


def test_mistakes_in_the_settings_of_a_crew_are_told_before_anything_is_started(elsewhere: Path) -> None:
    result = run(
        "up", "--set", "slotz=1", "--set", "worker.wait_limit_s=2", "--set", "http_port=1", "--set", "join=x:1"
    )
    assert result.exit_code == 65
    assert "  - slotz is not a setting (given as --set slotz=…); did you mean slots?\n" in result.stderr
    assert "  - wait_limit_s is not a setting (given as --set worker.wait_limit_s=…)" in result.stderr
    assert "  - http_port is not for --set here: the coordinator's is --http-port" in result.stderr
    assert "  - join is not for --set here" in result.stderr
    assert list(elsewhere.iterdir()) == []


def test_settings_of_a_crew_are_not_on_a_command_line_and_a_wrong_one_is_not_repeated(elsewhere: Path) -> None:
    file = elsewhere / "crew.yaml"
    file.touch()
    crew = plan(settings=["s3.access_key_id=me", "s3.secret_access_key=hunter2"], config=file)
    arguments = [*crew.coordinator_arguments(), *crew.worker_arguments("h:1")]
    assert not [word for word in arguments if "=" in word]
    assert values_of(arguments, "--config") == [str(file)] * 2
    assert "s3.secret_access_key=hunter2" in crew.coordinator_settings()
    assert "s3.secret_access_key=hunter2" in crew.worker_settings("worker-1", URL)
    assert "hunter2" not in repr(crew)
    with pytest.raises(InvalidSettingsError) as caught:
        plan(settings=["secret_access_key=hunter2"])
    assert "hunter2" not in str(caught.value)


def test_a_wrong_value_for_a_crew_is_told_before_anything_is_started(elsewhere: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=r"worker\.slots is 'zero'"):
        plan(settings=["slots=zero"])
    result = run("up", "--set", "slots=zero")
    assert result.exit_code == 65
    assert list(elsewhere.iterdir()) == []


def test_what_somebody_calls_by_its_former_name_is_told_the_new_one_before_anything_is_started(elsewhere: Path) -> None:
    result = run("up", "--set", "queries_at_once=5", "--set", "worker.recruiters=http://a:1", "--set", "recruiters=b")
    assert result.exit_code == 65
    assert "queries_at_once is called coordinator.metrics.queries_at_once now (given as --set" in result.stderr
    assert "worker.recruiter.urls" in result.stderr
    assert "coordinator.search.recruiters and worker.recruiter.urls now" in result.stderr
