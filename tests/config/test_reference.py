"""The page about settings: equal to the code, complete, and its example works."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.config import (
    CoordinatorSettings,
    InvalidSettingsError,
    RecruiterSettings,
    WorkerSettings,
    load_coordinator,
    load_recruiter,
    load_worker,
)
from quarterdeck.config.reference import EXAMPLE, render
from quarterdeck.config.s3 import S3Settings
from quarterdeck.config.search import SearchSettings
from quarterdeck.config.shared import CrewSettings, ProcessSettings

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "python -m quarterdeck.config.reference > docs/configuration.md"
    )


def test_the_example_works(tmp_path: Path) -> None:
    assert EXAMPLE in PAGE.read_text(encoding="utf-8")
    path = tmp_path / "example.yaml"
    path.write_text(EXAMPLE)
    assert load_coordinator(path, {}).spool_limit_bytes == 50 * 1024**3
    worker = load_worker(path, {})
    assert (worker.slots, worker.s3.region) == (8, "eu-central-1")


def test_every_setting_is_on_the_page_once() -> None:
    named = re.findall(r"^\| `([a-z0-9_.]+)`<br>", render(), re.MULTILINE)
    shared = {*CrewSettings.model_fields, *SearchSettings.model_fields}
    of_coordinators = [*CoordinatorSettings.model_fields, *RecruiterSettings.model_fields]
    own = [name for name in of_coordinators if name not in shared]
    own += [name for name in WorkerSettings.model_fields if name not in CrewSettings.model_fields]
    expected = [*own, *(shared - {"s3"})]
    assert sorted(named) == sorted(expected + [f"s3.{name}" for name in S3Settings.model_fields])


LOADERS: dict[type[ProcessSettings], Callable[[Path | None, dict[str, object]], ProcessSettings]] = {
    CoordinatorSettings: load_coordinator,
    WorkerSettings: load_worker,
    RecruiterSettings: load_recruiter,
}


@pytest.mark.parametrize("process", LOADERS)
def test_every_variable_on_the_page_is_one_that_is_read(
    process: type[ProcessSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = process.model_config.get("env_prefix", "")
    variables = re.findall(rf"`({prefix}\w+)`", render())
    assert len(variables) == len(process.model_fields) - 1 + len(S3Settings.model_fields)
    for variable in variables:
        monkeypatch.setenv(variable, "{}")  # which few settings take
    with pytest.raises(InvalidSettingsError) as refused:
        LOADERS[process](None, {})
    assert not [problem for problem in refused.value.problems if "is no setting" in problem.text]


@pytest.mark.parametrize("line", [line for line in render().splitlines() if line.startswith("| `")])
def test_every_row_has_four_columns(line: str) -> None:
    assert line.count(" | ") == 3
