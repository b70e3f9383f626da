"""Prometheus' own test scripts. They lie outside the project; without them these tests are skipped."""

from collections.abc import Mapping
from typing import Final

import pytest

from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.limits import Limits
from tests.conformance import files
from tests.conformance.planned_once import PlanningOnce
from tests.conformance.runner import Verdict, Ways, run, run_divided
from tests.conformance.script import Script

STABLE: Final = {1: Ways.ALL, 2: Ways.SOME, 7: Ways.SOME}
EXPERIMENTAL: Final = {1: Ways.SOME, 2: Ways.SOME, 7: Ways.SOME}


def script(name: str) -> Script:
    path = files.folder() / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    return files.read(path)


def check(asked: Script, ways: Mapping[int, Ways]) -> None:
    """Every eval passes over every number of shards. One test for all of them: they share plans and samples."""
    with PlanningOnce() as engine:
        outcomes = list(run_divided(asked, engine, ways))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
    assert len(outcomes) == len(asked.evals) * len(ways)


@pytest.mark.parametrize("name", files.STABLE)
def test_every_eval_of_prometheus_passes_over_any_shards(name: str) -> None:
    check(script(name), STABLE)


@pytest.mark.parametrize("name", files.EXPERIMENTAL)
def test_every_eval_of_an_experimental_script_passes_over_any_shards(name: str) -> None:
    check(script(name), EXPERIMENTAL)


def test_a_script_passes_with_every_query_planned_anew() -> None:
    """The tests above plan a query once and evaluate it often."""
    with Engine() as engine:
        outcomes = list(run(script("operators.test"), engine, shards=2, thorough=False))
    assert [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED] == []


def test_histograms_stream_in_small_blocks_as_well() -> None:
    with Engine(EngineOptions(limits=Limits(block_cells=2))) as engine:
        outcomes = list(run(script("native_histograms.test"), engine, shards=3, thorough=False))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])


def test_the_scripts_that_must_pass_are_all_there() -> None:
    assert sum(len(script(name).evals) for name in files.STABLE) == 1766
    assert sum(len(script(name).evals) for name in (*files.STABLE, *files.EXPERIMENTAL)) == 2214
