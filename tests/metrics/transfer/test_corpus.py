"""Prometheus' own scripts, with the answers of all leaves through artifacts. Without the scripts these are skipped."""

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

SCRIPTS = (*files.STABLE, *files.EXPERIMENTAL)
EVALS = 20
"""About so many of a script are run, spread evenly over it."""
IN_SMALL_BLOCKS = ("aggregators.test", "native_histograms.test", "range_queries.test", "subquery.test")


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


def check(name: str, folder: Path, block_cells: int) -> None:
    path = files.folder() / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    script = files.read(path)
    engine = FerryingEngine(Ferry(folder), EngineOptions(limits=Limits(block_cells=block_cells)))
    with engine:
        outcomes = list(run(script, engine, shards=2, wanted=some_of(script.evals), thorough=False))
    failed = [outcome.why for outcome in outcomes if outcome.verdict is Verdict.FAILED]
    assert not failed, f"{len(failed)} of {len(outcomes)} evals do not pass:\n\n" + "\n\n".join(failed[:10])
    assert engine.carried > 0 or name == "literals.test"


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_that_went_through_artifacts_are_right(tmp_path: Path, name: str) -> None:
    check(name, tmp_path, Limits().block_cells)


@pytest.mark.parametrize("name", IN_SMALL_BLOCKS)
def test_answers_that_went_through_artifacts_in_small_blocks_are_right(tmp_path: Path, name: str) -> None:
    check(name, tmp_path, block_cells=2)
