"""The page about settings: equal to the code, complete, and its example works."""

import re
from pathlib import Path

import pytest

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.config import InvalidSettingsError
from quarterdeck.config.reference import EXAMPLE
from quarterdeck.config.s3 import S3Settings
from quarterdeck.config.section import sections_of
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import has_more_below
from quarterdeck.reference import configuration_page as render
from quarterdeck.reference import every_process

KNOWN = configuration(CAPABILITIES)
PROCESSES = every_process(CAPABILITIES)
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "make reference writes it"


def test_the_example_works(tmp_path: Path) -> None:
    assert EXAMPLE in PAGE.read_text(encoding="utf-8")
    path = tmp_path / "example.yaml"
    path.write_text(EXAMPLE)
    coordinator = KNOWN.load_coordinator(path, {})
    assert coordinator.spool_limit_bytes == 50 * 1024**3
    worker = KNOWN.load_worker(path, {})
    assert (worker.slots, worker.s3.region) == (8, "eu-central-1")


def names_of(process: type[ProcessSettings]) -> list[str]:
    own = [name for name, field in process.model_fields.items() if not has_more_below(field)]
    below = [f"{name}.{one}" for name, section in sections_of(process).items() for one in section.model_fields]
    return [*own, *below, *(f"s3.{name}" for name in S3Settings.model_fields)]


def test_every_setting_is_on_the_page_in_one_row_for_each_meaning() -> None:
    rows = re.findall(r"^\| `([a-z0-9_.]+)`((?:<br>`\w+`)+) \|", render(), re.MULTILINE)
    variables = [variable for _, named in rows for variable in re.findall(r"\w{3,}", named)]
    expected = [
        process.model_config.get("env_prefix", "") + name.upper().replace(".", "__")
        for process in PROCESSES
        for name in names_of(process)
    ]
    assert sorted(variables) == sorted(expected)
    assert {name for name, _ in rows} == {name for process in PROCESSES for name in names_of(process)}


@pytest.mark.parametrize("process", PROCESSES)
def test_every_variable_on_the_page_is_one_that_is_read(
    process: type[ProcessSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = process.model_config.get("env_prefix", "")
    variables = re.findall(rf"<br>`({prefix}\w+)`", render())
    assert len(variables) == len(names_of(process))
    for variable in variables:
        monkeypatch.setenv(variable, "{}")  # which few settings take
    with pytest.raises(InvalidSettingsError) as refused:
        KNOWN.load(process, None, {})
    assert not [problem for problem in refused.value.problems if "is not a setting" in problem.text]


@pytest.mark.parametrize("line", [line for line in render().splitlines() if line.startswith("| `")])
def test_every_row_has_four_columns(line: str) -> None:
    assert line.count(" | ") == 3
