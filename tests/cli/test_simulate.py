"""`quarterdeck simulate`: what it prints, how it exits, and what it leaves for whoever has to find the bug."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarterdeck import __version__
from quarterdeck.command import app
from quarterdeck.search.world import scenario as recruiting_scenario
from quarterdeck.search.world import world as recruiting_world
from quarterdeck.simulation.faults import FAULTS
from quarterdeck.simulation.scenario import from_json, generate
from quarterdeck.simulation.world import play
from tests.search.world.bugs import releases_are_dropped
from tests.simulation.bugs import a_draining_worker_keeps_its_line, results_are_not_acknowledged


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever a command writes, it writes here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"quarterdeck {__version__}\n"


def test_the_installed_command_works() -> None:
    command = Path(sys.executable).with_name("quarterdeck")
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"quarterdeck {__version__}\n"


def test_seeds_are_played_and_what_they_met_is_told(elsewhere: Path) -> None:
    result = run("simulate", "--seeds", "20", "--jobs", "1")
    assert result.exit_code == 0
    for words in ("seeds", "20 in ", "simulated", "works", "succeeded", "transitions", " met", "crash "):
        assert words in result.stdout
    assert "no work was lost, done twice or left behind" in result.stdout
    assert list(elsewhere.iterdir()) == []


def test_what_was_not_met_is_told() -> None:
    result = run("simulate", "--seeds", "1", "--jobs", "1", "--faults", "none")
    assert result.exit_code == 0
    assert "not met: " in result.stdout
    assert "worker: accepting, drain;" in " ".join(result.stdout.split())
    assert " none" in result.stdout


def test_only_the_faults_that_were_asked_for_happen() -> None:
    result = run("simulate", "--seeds", "20", "--jobs", "1", "--faults", "crash, pause")
    assert result.exit_code == 0
    assert "crash " in result.stdout
    assert "partition" not in result.stdout


def test_with_minutes_it_goes_on_from_the_first_seed_for_as_long() -> None:
    result = run("simulate", "--minutes", "0", "--start", "5", "--jobs", "1", "--faults", "none")
    assert result.exit_code == 0
    assert "20 in " in result.stdout


def test_a_seed_is_replayed_with_its_scenario_and_its_digest() -> None:
    result = run("simulate", "--seed", "3")
    scenario = generate(3)
    assert result.exit_code == 0
    assert f"{scenario.coordinators} coordinators, {scenario.workers} workers" in result.stdout
    for part in (*scenario.queries, *scenario.faults):
        assert str(part) in result.stdout
    assert f"trace {play(scenario).trace.digest()}" in result.stdout
    assert result.stdout.endswith("all promises kept\n")


def test_the_trace_of_a_seed_is_everything_that_happened() -> None:
    result = run("simulate", "--seed", "3", "--trace")
    assert result.exit_code == 0
    entries = play(generate(3)).trace.entries
    assert str(entries[0]) in result.stdout
    assert str(entries[-1]) in result.stdout
    assert len(result.stdout.splitlines()) > len(entries)


@pytest.mark.parametrize("arguments", [("--seeds", "5"), ("--seed", "5")])
def test_an_unknown_fault_is_an_error_of_use_and_the_known_ones_are_named(arguments: tuple[str, ...]) -> None:
    result = run("simulate", *arguments, "--faults", "crash,bogus")
    assert result.exit_code == 65
    assert "no such fault: bogus" in result.stderr
    for name in ("all", "none", *FAULTS):
        assert name in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [("--seeds", "0"), ("--jobs", "0"), ("--seeds", "many"), ("--speed", "1")])
def test_a_wrong_command_line_is_an_error_of_use(arguments: tuple[str, ...]) -> None:
    assert run("simulate", *arguments).exit_code == 65


def test_a_scenario_that_is_not_there_is_an_error_of_use() -> None:
    result = run("simulate", "--scenario", "missing.json")
    assert result.exit_code == 65
    assert "missing.json" in result.stderr


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"queries": 1}', "\x00\x01"])
def test_a_file_that_is_no_scenario_is_an_error_of_use(elsewhere: Path, text: str) -> None:
    (elsewhere / "garbage.json").write_text(text)
    result = run("simulate", "--scenario", "garbage.json")
    assert result.exit_code == 65
    assert "cannot replay garbage.json" in result.stderr
    assert "not a scenario" in result.stderr


def test_a_file_that_is_no_text_is_an_error_of_use(elsewhere: Path) -> None:
    (elsewhere / "garbage.json").write_bytes(b"\xff\xfe\x00\x80")
    result = run("simulate", "--scenario", "garbage.json")
    assert result.exit_code == 65
    assert "cannot replay garbage.json" in result.stderr


def test_a_scenario_file_is_replayed(elsewhere: Path) -> None:
    (elsewhere / "scenario.json").write_text(generate(3).to_json())
    assert run("simulate", "--scenario", "scenario.json").stdout == run("simulate", "--seed", "3").stdout


def test_a_broken_promise_is_told_with_all_that_is_needed_to_find_out_why(elsewhere: Path) -> None:
    with a_draining_worker_keeps_its_line():
        result = run("simulate", "--seeds", "500", "--jobs", "1", "--faults", "drain,crash,pause,cut")
        (written,) = elsewhere.iterdir()
        again = run("simulate", "--scenario", written.name)
    assert result.exit_code == 1
    scenario = from_json(written.read_text())
    assert written.name == f"scenario-{scenario.seed}.json"
    assert f"seed {scenario.seed} broke a promise" in result.stdout
    assert "works in line" in result.stdout
    command = f"replay it with: quarterdeck simulate --seed {scenario.seed} --faults drain,crash,pause,cut"
    assert command in result.stdout
    assert f"quarterdeck simulate --scenario {written.name}" in result.stdout
    assert "the smallest scenario found that fails" in result.stdout
    assert str(scenario.faults[0]) in result.stdout
    assert len(scenario.faults) <= len(generate(scenario.seed, ("drain", "crash", "pause", "cut")).faults)
    assert "the last 40 events" in result.stdout
    assert "no work was lost" not in result.stdout
    assert again.exit_code == 1
    assert "works in line" in again.stdout
    assert run("simulate", "--scenario", written.name).exit_code == 0


def test_the_events_of_a_broken_promise_are_those_of_the_work_it_is_about(elsewhere: Path) -> None:
    with results_are_not_acknowledged():
        result = run("simulate", "--seed", "0", "--no-shrink")
    assert result.exit_code == 1
    assert "seed 0 broke a promise" in result.stdout
    assert "replay it with: quarterdeck simulate --seed 0\n" in result.stdout
    assert "the last 40 events" in result.stdout
    assert "smallest" not in result.stdout
    assert list(elsewhere.iterdir()) == []


def test_recruiting_is_played_and_what_it_met_is_told(elsewhere: Path) -> None:
    result = run("simulate", "--recruiting", "--seeds", "10", "--jobs", "1")
    assert result.exit_code == 0
    for words in ("10 in ", "chunks", "searches", " done", "transitions", "wedge "):
        assert words in result.stdout
    assert "no worker was lost or given to two, and each chunk counted once" in result.stdout
    assert list(elsewhere.iterdir()) == []


def test_a_seed_of_recruiting_is_replayed_with_its_trace() -> None:
    result = run("simulate", "--recruiting", "--seed", "3", "--trace", "--faults", "crash,wedge")
    scenario = recruiting_scenario.generate(3, ("crash", "wedge"))
    outcome = recruiting_world.play(scenario)
    assert result.exit_code == 0
    assert scenario.headline() in result.stdout
    for part in scenario.parts():
        assert str(part) in result.stdout
    assert str(outcome.trace.entries[-1]) in result.stdout
    assert f"trace {outcome.trace.digest()}" in result.stdout
    assert result.stdout.endswith("all promises kept\n")


def test_a_broken_promise_of_recruiting_can_be_replayed_from_what_is_printed(elsewhere: Path) -> None:
    with releases_are_dropped():
        result = run("simulate", "--recruiting", "--seeds", "5", "--jobs", "1", "--faults", "none")
        (written,) = elsewhere.iterdir()
        again = run("simulate", "--recruiting", "--scenario", written.name)
    assert result.exit_code == 1
    assert "replay it with: quarterdeck simulate --recruiting --seed 0 --faults none" in result.stdout
    assert f"quarterdeck simulate --recruiting --scenario {written.name}" in result.stdout
    assert again.exit_code == 1
    assert "that was released is not back" in again.stdout
    assert run("simulate", "--recruiting", "--scenario", written.name).exit_code == 0
