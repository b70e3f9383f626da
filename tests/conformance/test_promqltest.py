"""Prometheus' own test scripts. They lie outside the project; without them these tests are skipped."""

import pytest

from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.limits import Limits
from tests.conformance import files
from tests.conformance.runner import Verdict, run
from tests.conformance.script import Script


def script(name: str) -> Script:
    path = files.folder() / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    return files.read(path)


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("name", files.STABLE)
def test_every_eval_of_prometheus_passes(name: str, shards: int) -> None:
    with Engine() as engine:
        outcomes = list(run(script(name), engine, shards, thorough=shards == 1))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])


def test_histograms_stream_in_small_blocks_as_well() -> None:
    with Engine(EngineOptions(limits=Limits(block_cells=2))) as engine:
        outcomes = list(run(script("native_histograms.test"), engine, shards=3, thorough=False))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])


def test_the_scripts_that_must_pass_are_all_there() -> None:
    assert sum(len(script(name).evals) for name in files.STABLE) == 1766
    assert sum(len(script(name).evals) for name in (*files.STABLE, *files.EXPERIMENTAL)) == 2214


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("name", files.EXPERIMENTAL)
def test_every_eval_of_an_experimental_script_passes(name: str, shards: int) -> None:
    with Engine() as engine:
        outcomes = list(run(script(name), engine, shards, thorough=False))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
