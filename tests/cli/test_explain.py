"""`quarterdeck explain`, as somebody types it."""

import pytest
from typer.testing import CliRunner, Result

from quarterdeck.cli.main import app


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
        "quarterdeck: the query was not understood: 1:16: parse error: unclosed left parenthesis; mend it here:",
        "  sum(rate(m[5m])",
        "                 ^",
    ]


@pytest.mark.parametrize(("option", "text"), [("--last", "soon"), ("--step", "1"), ("--step", "0s"), ("--last", "-1h")])
def test_a_wrong_duration_names_its_option(option: str, text: str) -> None:
    result = explain("m", option, text)
    assert result.exit_code == 65
    assert f"{option} was not understood" in result.stderr
