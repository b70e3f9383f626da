"""Many seeds, on all cores: what they met, how fast it went, and the first that broke a promise."""

import atexit
import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from quarterdeck.core.named import Named
from quarterdeck.simulation.dramas import CREW, Drama, name_of_move
from quarterdeck.simulation.outcome import PlayOutcome

_CHUNK = 20
"""Seeds a process takes at a time: enough to forget the cost of handing them over, few enough to stop soon."""


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    violation: str


@dataclass(slots=True)
class Summary:
    """Adds up what runs met. Transitions are named `table: state, trigger`."""

    seeds: int = 0
    steps: int = 0
    works: int = 0
    virtual_s: float = 0.0
    wall_s: float = 0.0
    failures: list[Failure] = field(default_factory=list[Failure])
    moves: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    ends: Counter[str] = field(default_factory=Counter[str])

    def add(self, outcome: PlayOutcome[Any]) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.works += outcome.works
        self.virtual_s += outcome.virtual_s
        self.faults.update(outcome.faults)
        self.ends.update(outcome.ends)
        self.moves.update({name_of_move(*move): number for move, number in outcome.moves.items()})
        if outcome.violation is not None:
            self.failures.append(Failure(outcome.scenario.seed, outcome.violation))

    def merge(self, other: "Summary") -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.works += other.works
        self.virtual_s += other.virtual_s
        self.failures += other.failures
        self.moves.update(other.moves)
        self.faults.update(other.faults)
        self.ends.update(other.ends)

    def unmet_moves(self, drama: Drama[Any] = CREW) -> list[str]:
        return [name for name in drama.moves() if not self.moves[name]]

    def unmet_faults(self, kinds: Collection[str]) -> list[str]:
        return [name for name in kinds if not self.faults[name]]


def run_seeds(
    seeds: Iterable[int],
    kinds: Collection[str] | None = None,
    *,
    drama: Drama[Any] | None = None,
    jobs: int | None = None,
    minutes: float | None = None,
    on_progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Plays seeds until they, or the minutes, are over, or one breaks a promise. The first chunks are always played.
    Without `kinds` every fault may happen; without a drama it is the crew's."""
    began = time.monotonic()
    total = Summary()
    drama = drama or CREW
    kinds = tuple(drama.faults if kinds is None else kinds)
    for part in _parts(iter(seeds), kinds, jobs or os.cpu_count() or 1, drama):
        total.merge(part)
        total.wall_s = time.monotonic() - began
        if on_progress is not None:
            on_progress(total)
        if total.failures or (minutes is not None and total.wall_s > minutes * 60):
            break
    total.failures.sort(key=lambda failure: failure.seed)
    return total


def _parts(seeds: Iterator[int], kinds: tuple[str, ...], jobs: int, drama: Drama[Any]) -> Iterator[Summary]:
    chunks = iter(lambda: tuple(islice(seeds, _CHUNK)), ())
    if jobs == 1:
        for chunk in chunks:
            yield play_all(chunk, kinds, drama)
        return
    # A fresh interpreter for each: forking one that runs a progress bar's thread can hang.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_settle) as pool:
        waiting: set[Future[Summary]] = {
            pool.submit(_play_named, chunk, kinds, drama.place) for chunk in islice(chunks, 2 * jobs)
        }
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= {pool.submit(_play_named, chunk, kinds, drama.place) for chunk in islice(chunks, len(done))}
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def play_all(seeds: Iterable[int], kinds: Collection[str], drama: Drama[Any]) -> Summary:
    summary = Summary()
    for seed in seeds:
        summary.add(drama.play(drama.generate(seed, kinds)))
    return summary


def _play_named(seeds: Iterable[int], kinds: Collection[str], drama: Named[Drama[Any]]) -> Summary:
    """In another process, where the drama is another object."""
    return play_all(seeds, kinds, drama.load())


def _settle() -> None:
    """What is loaded stays: the collector need not look at it after every run, only at the end."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)
