"""Our own scripts, in the language of Prometheus' ones: what those leave open, and what we found broken once."""

from pathlib import Path

import pytest

from quarterdeck.metrics.promql.engine import Engine
from tests.conformance import files
from tests.conformance.runner import Verdict, run

SCRIPTS = sorted(files.OWN_FOLDER.glob("*.test"))


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_every_eval_of_our_own_passes(path: Path, shards: int) -> None:
    with Engine() as engine:
        outcomes = list(run(files.read(path), engine, shards))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is not Verdict.PASSED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
