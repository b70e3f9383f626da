"""The documents are true: diagrams are those of the tables, commands run, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from checks.diagrams import redrawn

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMANDS = sorted({line for page in PAGES for line in re.findall(r"^\$ (.+)$", page.read_text(), re.MULTILINE)})


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


def test_the_pages_have_commands() -> None:
    assert "make demo" in COMMANDS
    assert "make test" in COMMANDS


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_every_make_command_in_the_pages_is_a_target(command: str) -> None:
    target = command.removeprefix("make ")
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("make ")])
def test_every_other_command_in_the_pages_runs(command: str, tmp_path: Path) -> None:
    program, *words = command.split()
    assert program == ".venv/bin/quarterdeck"
    fewer = ["20" if before == "--seeds" else word for before, word in zip(["", *words], words, strict=False)]
    quarterdeck = Path(sys.executable).with_name("quarterdeck")
    done = subprocess.run([quarterdeck, *fewer], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
