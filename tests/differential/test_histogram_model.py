"""Queries over native histograms against a slow, plain model of them: random series, random queries, several shards."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.promql.engine import Engine
from tests.conformance import files
from tests.conformance.runner import Verdict, Ways, judged, stages
from tests.conformance.script import Eval, Wording
from tests.differential.histogram_model.bridge import asked, difference, modelled, source
from tests.differential.histogram_model.data import world
from tests.differential.histogram_model.expressions import NotModelled, Vector
from tests.differential.histogram_model.grammar import vectors
from tests.differential.histogram_model.oracle import ModelOracle, world_of
from tests.differential.histogram_model.samples import Times

SCRIPTS = [
    files.folder() / "native_histograms.test",
    files.folder() / "extended_vectors.test",
    *sorted(files.OWN_FOLDER.glob("native_*")),
]
SEEDS = st.integers(0, 9_999)
SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(threads=1) as found:
        yield found


def check(engine: Engine, seed: int, query: Vector) -> None:
    """The product says what the model says: over all steps, in one shard and in three, and at one step."""
    here = world(seed)
    samples = source(here)
    instant = replace(here, times=Times(here.times.end_ms, here.times.end_ms, 1))
    for asking, shards in ((here, [samples]), (here, list(samples.shards(3))), (instant, [samples])):
        expected = modelled(query, asking)
        if expected is not None and expected.order_counts and len(shards) > 1:
            continue
        came = asked(engine, shards, str(query), asking)
        found = difference(expected, came)
        if found is not None:
            raise AssertionError(f"world {seed}, {asking.times}\n{query}\n{len(shards)} shards\n{found}")


@settings(
    deadline=None,
    max_examples=600,
    derandomize=True,
    database=None,
    suppress_health_check=SLOW,
    phases=(Phase.explicit, Phase.generate),  # making a failure smaller takes minutes: `make soak` does it
)
@given(SEEDS, vectors())
def test_the_product_answers_as_the_model_does(engine: Engine, seed: int, query: Vector) -> None:
    check(engine, seed, query)


@pytest.mark.soak
@settings(deadline=None, max_examples=20_000, database=None, suppress_health_check=SLOW, print_blob=True)
@given(SEEDS, vectors())
def test_the_product_answers_as_the_model_does_for_a_long_time(engine: Engine, seed: int, query: Vector) -> None:
    check(engine, seed, query)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_model_passes_the_scripts_over_native_histograms(path: Path) -> None:
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    script = files.read(path)
    verdicts: Counter[Verdict] = Counter()
    failed: list[str] = []
    for stage in stages(script):
        oracle = ModelOracle(world_of(stage.series))
        for command in stage.evals:
            outcome = judged(script.file, _without_places(command), oracle, Ways.PLAIN)
            if NotModelled.__name__ in outcome.why:
                continue
            verdicts[outcome.verdict] += 1
            failed += [outcome.why] if outcome.verdict is Verdict.FAILED else []
    assert not failed, "\n\n".join(failed[:10])
    assert verdicts[Verdict.PASSED] > len(script.evals) * 0.8, "the model has nothing to say of too many evals"


def _without_places(command: Eval) -> Eval:
    """The model knows what to note and not where in the query."""
    warnings, infos = (
        replace(notices, wordings=tuple(map(_without_place, notices.wordings)))
        for notices in (command.warnings, command.infos)
    )
    return replace(command, warnings=warnings, infos=infos)


def _without_place(wording: Wording) -> Wording:
    text, pattern = (
        None if one is None else re.sub(r" \\?\(\d+:\d+\\?\)$", "", one) for one in (wording.text, wording.pattern)
    )
    return Wording(text, pattern)
