"""`quarterdeck explain`, as somebody types it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app


def explain(*words: str) -> Result:
    return CliRunner().invoke(app, ["explain", *words])


def test_it_shows_what_is_left_and_what_is_pushed_down() -> None:
    result = explain("sum by (job) (rate(m[5m])) / 2", "--last", "6h", "--step", "30s")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "721 steps of 30s",
        "/ number on the right",
        "├── leaf 0",
        "└── 2",
        "leaf 0: partial aggregates of all shards, combined; 721 steps of 30s",
        "└── sum by (job)",
        "    └── rate",
        "        └── m[5m]",
    ]


def test_an_instant_query_has_one_step() -> None:
    assert explain("m[5m]", "--last", "0").stdout.splitlines()[0] == "1 step"


def test_a_wrong_query_is_shown_with_its_place() -> None:
    result = explain("sum(rate(m[5m])")
    assert result.exit_code == 65
    assert result.stderr.splitlines() == [
        "quarterdeck: the query was not understood: 1:16: parse error: unclosed left parenthesis; correct it here:",
        "  sum(rate(m[5m])",
        "                 ^",
    ]


@pytest.mark.parametrize(
    ("option", "text"), [("--last", "soon"), ("--step", "1x"), ("--step", "0s"), ("--last", "-1h")]
)
def test_a_wrong_duration_names_its_option(option: str, text: str) -> None:
    result = explain("m", option, text)
    assert result.exit_code == 65
    assert f"{option} was not understood" in result.stderr


def test_a_range_that_the_engine_would_refuse_is_refused() -> None:
    result = explain("m", "--last", "10y", "--step", "1ms")
    assert result.exit_code == 82
    assert "exceeded maximum resolution of 11,000 points" in result.stderr


def test_a_wrong_step_is_wrong_for_an_instant_query_too() -> None:
    result = explain("m", "--last", "0", "--step", "soon")
    assert result.exit_code == 65
    assert "--step was not understood" in result.stderr


def test_it_does_not_wait_for_the_compiler() -> None:
    run = "from quarterdeck.metrics.commands.explain import run; run('m', '1h', '1m')"
    code = f"import sys; {run}; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
