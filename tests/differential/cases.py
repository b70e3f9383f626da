"""A query and when it is asked, and the two engines that answer it."""

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.memory import MemorySource, Series
from tests.differential import answers, dataset
from tests.differential import vocabulary as words
from tests.differential.answers import Answer, Crash, Failure
from tests.differential.peer import PrometheusClient
from tests.differential.queries import QueryMaker
from tests.differential.selectors import FIRST_S, LAST_S

_NUDGES: Final = 4
_NUDGE: Final = 1e-13
"""A thousand times what a sum of a hundred values may be off, and a ten-thousandth of the tolerance."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query at one time (`step_s` is 0), or over a range."""

    text: str
    start_s: int
    end_s: int
    step_s: int

    @property
    def instant(self) -> bool:
        """Whether it is asked for one time."""
        return self.step_s == 0

    def __str__(self) -> str:
        when = f"at {self.start_s}" if self.instant else f"from {self.start_s} to {self.end_s} step {self.step_s}"
        return f"{self.text}\n  {when}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """The cases of a seed: the same for the same seed, whatever the count."""
    for number in range(count):
        random = Random(f"case {seed} {number}")
        maker = QueryMaker(random)
        start = random.randint(FIRST_S, LAST_S + 240)
        if random.random() < 0.5:
            yield Case(maker.query(instant=True), start, start, 0)
        else:
            step = random.choice(words.QUERY_STEPS_S)
            end = start + step * random.randint(0, 30) + random.randrange(step)
            yield Case(maker.query(instant=False), start, end, step)


def asked(client: PrometheusClient, case: Case) -> dict[str, Any]:
    """The reply over HTTP."""
    if case.instant:
        return client.ask("query", {"query": case.text, "time": str(case.start_s)})
    times = {"start": str(case.start_s), "end": str(case.end_s), "step": str(case.step_s)}
    return client.ask("query_range", {"query": case.text, **times})


class Peer:
    """Prometheus, filled with a data set."""

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client

    def answer(self, case: Case) -> Answer:
        """What Prometheus says."""
        text = case.text.replace("double_exponential_smoothing", "holt_winters")  # its name before 3.0
        return answers.told(asked(self._client, replace(case, text=text)))


class Candidate:
    """Our engine over a data set, in one or more shards; close it."""

    def __init__(self, series: tuple[Series, ...], shards: int, engine: Engine | None = None) -> None:
        self._series = series
        self._shards = shards
        self._engine = engine or Engine()
        self._sources = MemorySource.of(series).shards(shards)

    def close(self) -> None:
        """End what the engine started."""
        self._engine.close()

    def answer(self, case: Case) -> Answer:
        """Ours."""
        return self.engine_answer(case)

    def engine_answer(self, case: Case) -> Answer:
        """What our engine says, in this process. What excuses a difference is how this one moves: whoever else answers
        for us, with mistakes of its own, is not excused by them."""
        return self._answer(case, self._sources)

    def nudged_answers(self, case: Case) -> Iterator[Answer]:
        """What our engine says when the samples are a hair different: shows how far rounding can carry."""
        return (self._answer(case, sources) for sources in self._nudged)

    @cached_property
    def _nudged(self) -> list[Sequence[MemorySource]]:
        return [
            MemorySource.of(dataset.nudged(self._series, _NUDGE, seed)).shards(self._shards) for seed in range(_NUDGES)
        ]

    def _answer(self, case: Case, sources: Sequence[MemorySource]) -> Answer:
        try:
            if case.instant:
                result = self._engine.instant(sources, case.text, case.start_s * 1000)
            else:
                times = (case.start_s * 1000, case.end_s * 1000, case.step_s * 1000)
                result = self._engine.range(sources, case.text, *times)
        except QuarterdeckError as error:
            return Failure(str(error))
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            return Crash(traceback.format_exc(limit=-4))
        return answers.ours(result)
