"""Our own scripts, in the language of Prometheus' ones: what those leave open, and what we found broken once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import files
from tests.conformance.planned_once import PlanningOnce
from tests.conformance.runner import Verdict, Ways, run_divided

SCRIPTS = sorted(files.OWN_FOLDER.glob("*.test"))
each_script = pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])


def check(path: Path, ways: Mapping[int, Ways]) -> None:
    """Every eval passes over every number of shards. One test for all of them: they share plans and samples."""
    asked = files.read(path)
    with PlanningOnce() as engine:
        outcomes = list(run_divided(asked, engine, ways))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
    assert len(outcomes) == len(asked.evals) * len(ways)


@each_script
def test_every_eval_of_our_own_passes_over_any_shards(path: Path) -> None:
    check(path, {1: Ways.ALL, 2: Ways.SOME, 7: Ways.SOME})


@pytest.mark.soak
@each_script
def test_every_eval_of_our_own_passes_in_all_ways_over_any_shards(path: Path) -> None:
    check(path, {1: Ways.ALL, 2: Ways.ALL, 7: Ways.ALL})
