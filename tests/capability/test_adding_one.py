"""A new capability is one package and one line: what that line alone brings."""

import difflib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.cli.main import make_app
from quarterdeck.config import InvalidSettingsError
from quarterdeck.reference import configuration_page, metrics_page
from quarterdeck.stores.database.schema import Schema
from tests.tally.capability import TALLY
from tests.tally.settings import CountingSettings

WITH_IT = (*CAPABILITIES, TALLY)
ROOT = Path(__file__).parents[2]
LINE = '    Named("tests.tally.capability:TALLY"),\n'


def run(*arguments: str) -> Result:
    return CliRunner().invoke(make_app(WITH_IT), arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_adding_it_changes_one_line_and_the_command_then_has_it(tmp_path: Path) -> None:
    package = tmp_path / "quarterdeck"
    shutil.copytree(ROOT / "src" / "quarterdeck", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "tally", tmp_path / "tests" / "tally")
    listed = package / "capabilities.py"
    before = listed.read_text()
    last = re.findall(r"^    Named\(.*\),\n", before, re.MULTILINE)[-1]
    listed.write_text(before.replace(last, last + LINE))

    changed = list(difflib.unified_diff(before.splitlines(True), listed.read_text().splitlines(True), n=0))
    assert [line for line in changed[2:] if line[0] in "+-"] == [f"+{LINE}"]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    for arguments, said in (
        (("-m", "quarterdeck", "--help"), "Count the words of a text on the crew."),
        (("-m", "quarterdeck.reference", "configuration"), "QUARTERDECK_COORDINATOR_TALLY__MOST_CHARACTERS"),
        (("-m", "quarterdeck.reference", "metrics"), "quarterdeck_coordinator_tally_words_total"),
    ):
        told = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
        )
        assert said in told.stdout


def test_no_file_of_ours_names_it() -> None:
    naming = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"tests\.tally|\bTALLY\b", path.read_text())
    ]
    assert naming == []


def test_the_pages_have_its_settings_its_kind_of_work_and_its_metrics() -> None:
    page = configuration_page(WITH_IT)
    assert "## Tally, in a coordinator" in page
    assert "`tally.least_letters`<br>`QUARTERDECK_WORKER_TALLY__LEAST_LETTERS`" in page
    assert "- `tally`, for tally" in page
    assert "Words that workers counted." in metrics_page(WITH_IT)
    assert "tally" not in configuration_page()


def test_its_settings_come_from_every_source_with_defaults_of_the_process_checks_and_former_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = configuration(WITH_IT)
    file = tmp_path / "crew.yaml"
    file.write_text("worker: {memory_bytes: 5000, tally: {least_letters: 4}}\n")
    settings = known.load_worker(file, {}).section(CountingSettings)
    assert (settings.least_letters, settings.text_bytes) == (4, 5)
    monkeypatch.setenv("QUARTERDECK_WORKER_TALLY__TEXT_BYTES", "6000")
    with pytest.raises(InvalidSettingsError, match=r"tally\.text_bytes must not be above memory_bytes"):
        known.load_worker(file, {})
    with pytest.raises(InvalidSettingsError, match=r"worker\.tally_letters is called worker\.tally\.least_letters now"):
        known.load_worker(None, {"tally_letters": 3})


def test_its_command_is_listed_without_being_loaded_and_its_world_can_be_played(tmp_path: Path) -> None:
    assert "Count the words of a text on the crew." in run("--help").stdout
    played = run("simulate", "--tallying", "--seeds", "5", "--jobs", "1")
    assert played.exit_code == 0, played.output
    assert "each word counted once" in played.stdout


def test_its_schema_is_among_those_of_a_coordinator() -> None:
    schemas = [one.schema.load() for one in WITH_IT if one.schema is not None]
    assert [schema.owner for schema in schemas if isinstance(schema, Schema)][-1] == "tally"
