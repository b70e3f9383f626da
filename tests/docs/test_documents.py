"""The documents are true: diagrams are those of the tables, commands run, links lead somewhere."""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import duckdb
import pytest

from checks.diagrams import redrawn
from quarterdeck.stores.data_folder import announced

ValueT = TypeVar("ValueT")

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMANDS = sorted(
    {
        re.sub(r"\\\n\s*", "", command)
        for page in PAGES
        for command in re.findall(r"^\$ ((?:.*\\\n)*.+)$", page.read_text(), re.MULTILINE)
    }
)
SIMULATIONS = [command for command in COMMANDS if " simulate " in command]
EXPLANATIONS = [command for command in COMMANDS if " explain " in command]
CREW = {
    "up": ".venv/bin/quarterdeck up",
    "status": ".venv/bin/quarterdeck status",
    "scan": next(command for command in COMMANDS if command.startswith(".venv/bin/quarterdeck scan ")),
    "import": ".venv/bin/quarterdeck import metrics.om",
    "query": next(command for command in COMMANDS if command.startswith(".venv/bin/quarterdeck query ")),
    "search": next(command for command in COMMANDS if command.startswith(".venv/bin/quarterdeck search ")),
    "curl": next(command for command in COMMANDS if command.startswith("curl ") and "/v1/scan" in command),
    "sample": ".venv/bin/quarterdeck sample-data",
    "metrics": ".venv/bin/quarterdeck metrics http",
    "page": "curl -s localhost:7070/metrics | .venv/bin/quarterdeck import - --format prometheus --at now",
    "coordinator": "quarterdeck coordinator --config crew.yaml",
    "worker": "quarterdeck worker --join coordinator.example:7071 --config crew.yaml",
}
"""Those that are tried with a crew; a test below runs each of them."""
SOURCES = ("src", "tests", "bench", "checks")
QUARTERDECK = str(Path(sys.executable).with_name("quarterdeck"))


def test_the_diagrams_are_drawn_from_the_tables() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert redrawn(page) == page


def test_a_table_without_a_diagram_is_an_error() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text().replace("<!-- diagram: work -->", "")
    with pytest.raises(ValueError, match="there are tables of"):
        redrawn(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "adr"], ids=lambda page: page.name)
def test_a_source_file_that_a_page_names_is_there(page: Path) -> None:
    """A page may leave out the folders above, as in `machine/pool.py`. Decisions are history: what they name may go."""
    named = set(re.findall(r"`([\w./]+\.(?:py|proto|js))`", page.read_text()))
    sources = [f"/{file.relative_to(ROOT)}" for folder in SOURCES for file in (ROOT / folder).rglob("*.*")]
    assert [name for name in sorted(named) if not any(source.endswith(f"/{name}") for source in sources)] == []


def test_a_decision_has_a_number_of_its_own_and_says_it() -> None:
    decisions = [page for page in PAGES if page.parent.name == "adr"]
    numbers = [int(page.name[:4]) for page in decisions]
    assert len(numbers) == len(set(numbers)) > 30
    assert all(page.read_text().startswith(f"# {number}. ") for page, number in zip(decisions, numbers, strict=True))


def test_the_pages_have_commands() -> None:
    assert "make demo" in COMMANDS
    assert "make test" in COMMANDS


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_every_make_command_in_the_pages_is_a_target(command: str) -> None:
    target = command.removeprefix("make ")
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", SIMULATIONS)
def test_every_simulation_in_the_pages_runs(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)[1:]
    fewer = ["20" if before == "--seeds" else word for before, word in zip(["", *words], words, strict=False)]
    done = subprocess.run([QUARTERDECK, *fewer], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", EXPLANATIONS)
def test_every_explanation_in_the_pages_is_what_the_command_prints(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [QUARTERDECK, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = [page.read_text() for page in PAGES if command in page.read_text()]
    assert all(f"```text\n{done.stdout}```" in page for page in pages)


def test_every_other_command_in_the_pages_is_tried_with_a_crew() -> None:
    others = {command for command in COMMANDS if not command.startswith("make ")} - {*SIMULATIONS, *EXPLANATIONS}
    assert others == set(CREW.values())


def test_the_crew_of_the_pages_can_be_started_and_asked(tmp_path: Path) -> None:
    up = [*shlex.split(CREW["up"])[1:], "--workers", "2", "--http-port", "0", "--control-port", "0"]
    with _running([QUARTERDECK, *up], tmp_path):
        url = _announced(tmp_path / "quarterdeck-data" / "coordinator", "http")
        _wait_ready(url)
        environment = {**os.environ, "QUARTERDECK_URL": url, "COLUMNS": "120"}

        def run(name: str, *more: str) -> str:
            return _output([QUARTERDECK, *shlex.split(CREW[name])[1:], *more], tmp_path, environment)

        def run_in_shell(name: str) -> str:
            command = CREW[name].replace("localhost:7070", url).replace(".venv/bin/quarterdeck", QUARTERDECK)
            return _output(["sh", "-c", command], tmp_path, environment)

        sample = run("sample")
        assert f"lake: {tmp_path}/quarterdeck-data/lake, the lake of the crew at {url}" in sample
        assert "accepting" in run("status")
        requests = f"read_parquet('{tmp_path}/quarterdeck-sample/requests/**/*.parquet')"
        statuses = duckdb.execute(f"select status, count(*) from {requests} group by status").fetchall()
        assert sorted(_table_rows(run("scan", "--format", "csv"))) == sorted([f"{s},{n}" for s, n in statuses])
        failed = [json.loads(row) for row in run_in_shell("curl").splitlines()]
        assert len(failed) == dict(statuses)[500]
        assert {row["status"] for row in failed} == {500}
        assert "api" in run("query", "--format", "table")
        assert re.search(r"http_requests_total +counter +30 +20", run("metrics"))
        found = [json.loads(line) for line in run("search").splitlines()]
        logs = f"read_json('{tmp_path}/quarterdeck-sample/logs/*.ndjson')"
        timed_out = f"select host, count(*) from {logs} where level = 'error' and msg ilike '%timed out%' group by host"
        assert {row["host"]: row["count"] for row in found} == dict(duckdb.execute(timed_out).fetchall())
        _write_metrics(tmp_path / "metrics.om")
        assert "122 samples of 2 series" in run("import")
        assert "standard input: " in run_in_shell("page")


def _table_rows(csv: str) -> list[str]:
    """What is below the header."""
    return csv.splitlines()[1:]


def test_the_processes_of_the_pages_can_be_started_with_one_file(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text("coordinator: {http_port: 0, control_port: 0}\nworker: {slots: 1}\n")
    coordinator = [QUARTERDECK, *shlex.split(CREW["coordinator"])[1:]]
    with _running(coordinator, tmp_path):
        folder = tmp_path / "quarterdeck-data" / "coordinator"
        url, control = _announced(folder, "http"), _announced(folder, "control")
        worker = [QUARTERDECK, *shlex.split(CREW["worker"].replace("coordinator.example:7071", control))[1:]]
        with _running(worker, tmp_path):
            _wait_ready(url)


def _write_metrics(path: Path) -> None:
    now_s = int(time.time())
    samples = [
        f'http_requests_total{{job="{job}"}} {60 * minute} {now_s - 60 * (60 - minute)}'
        for job in ("api", "web")
        for minute in range(61)
    ]
    path.write_text("\n".join(["# TYPE http_requests counter", *samples, "# EOF", ""]))


@contextmanager
def _running(command: list[str], folder: Path) -> Generator[None]:
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield
        finally:
            process.terminate()
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said


def _announced(folder: Path, name: str) -> str:
    return _wait(lambda: str((announced(folder) or {})[name]), f"{folder} has not announced {name}")


def _wait_ready(url: str) -> None:
    def look() -> None:
        with urllib.request.urlopen(f"{url}/ready") as answer:
            assert answer.status == 200

    _wait(look, f"{url} is not ready")


def _wait(look: Callable[[], ValueT], what: str) -> ValueT:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return look()
        except (KeyError, OSError):
            if time.monotonic() > deadline_s:
                pytest.fail(what)
            time.sleep(0.05)


def _output(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_of_the_pages_gives_what_they_say() -> None:
    outcomes = [doctest.testfile(str(page), module_relative=False) for page in PAGES]
    assert sum(outcome.failed for outcome in outcomes) == 0
    assert sum(outcome.attempted for outcome in outcomes) > 0
