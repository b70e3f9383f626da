"""Prometheus' own scripts and ours, with the answers of all leaves through artifacts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.evalflow import LeafStream
from quarterdeck.metrics.promql.flow.leaf import LeafBlock, evaluate_leaf
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.promql.source import Source
from tests.conformance import files
from tests.conformance.runner import Verdict, run
from tests.conformance.script import Eval
from tests.metrics.transfer.artifacts import Ferry

SCRIPTS = [files.folder() / name for name in (*files.STABLE, *files.EXPERIMENTAL)] + sorted(
    files.OWN_FOLDER.glob("*.test")
)
EVALS = 60
"""So many of a script are run, spread evenly over it: most of the time goes into the evaluation itself."""


class FerryingEngine(Engine):
    """Evaluates leaves, and goes on with what comes out of their artifacts."""

    def __init__(self, ferry: Ferry, options: EngineOptions | None = None) -> None:
        super().__init__(options)
        self._ferry = ferry
        self.carried = 0

    def _stream(
        self, leaf: BaseExpr, sources: Sequence[Source], context: Callable[[Notes], Context], block_cells: int
    ) -> LeafStream:
        shards: list[list[LeafBlock]] = []
        notes = Notes()
        for source in sources:
            found = Notes()
            reader = self._ferry.carry(leaf, evaluate_leaf(leaf, source, context(found), block_cells), found)
            shards.append(list(reader))
            notes.add(reader.notes)
            self.carried += 1
        return LeafStream([iter(blocks) for blocks in shards], notes)


def some_of(evals: Sequence[Eval]) -> Callable[[Eval], bool]:
    lines = {one.line for one in evals[:: max(1, len(evals) // EVALS)]}
    return lambda one: one.line in lines


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
@pytest.mark.parametrize("block_cells", [Limits().block_cells, 2])
def test_answers_that_went_through_artifacts_are_the_same(tmp_path: Path, path: Path, block_cells: int) -> None:
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    script = files.read(path)
    with FerryingEngine(Ferry(tmp_path), EngineOptions(limits=Limits(block_cells=block_cells))) as engine:
        outcomes = list(run(script, engine, shards=2, wanted=some_of(script.evals), thorough=False))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is Verdict.FAILED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
    assert engine.carried > 0 or script.file in {"literals.test", "start_timestamps.test"}
