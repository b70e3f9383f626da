"""A world for the simulator: texts are counted in parts, and a part that was lost is counted again."""

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Final

from quarterdeck.core.named import Named
from quarterdeck.simulation.dramas import Drama
from quarterdeck.simulation.outcome import PlayOutcome
from quarterdeck.simulation.trace import Trace
from tests.tally.model import count_words


class Lost:
    """A fault: the answer of a part is lost, after its effect."""


FAULTS: Final = {"lost": Lost}


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    texts: tuple[str, ...]
    lost: tuple[int, ...] = ()
    """The texts whose first answer is lost."""

    def headline(self) -> str:
        return f"{len(self.texts)} texts"

    def parts(self) -> tuple[object, ...]:
        return (*self.texts, *(f"the answer of {number} is lost" for number in self.lost))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def generate(seed: int, kinds: Collection[str]) -> Scenario:
    chance = Random(seed)
    texts = tuple("word " * chance.randint(0, 5) for _ in range(chance.randint(1, 4)))
    lost = tuple(number for number in range(len(texts)) if "lost" in kinds and chance.random() < 0.5)
    return Scenario(seed, texts, lost)


def from_json(text: str) -> Scenario:
    document = json.loads(text)
    return Scenario(int(document["seed"]), tuple(document["texts"]), tuple(document["lost"]))


def play(scenario: Scenario) -> PlayOutcome[Scenario]:
    outcome = PlayOutcome(scenario, Trace())
    counted: dict[int, int] = {}
    for number, text in enumerate(scenario.texts):
        for _ in range(1 + (number in scenario.lost)):
            counted[number] = count_words(text, 1)
            outcome.steps += 1
        outcome.works += 1
        outcome.ends["counted"] += 1
    outcome.faults["lost"] += len(scenario.lost)
    if sum(counted.values()) != sum(text.count("word") for text in scenario.texts):
        outcome.violation = "a word was counted twice, or not at all"
    return outcome


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    for number in range(len(scenario.texts)):
        yield replace(scenario, texts=scenario.texts[:number] + scenario.texts[number + 1 :], lost=())


TALLYING: Drama[Scenario] = Drama(
    name="tallying",
    place=Named("tests.tally.world:TALLYING"),
    faults=FAULTS,
    generate=generate,
    from_json=from_json,
    play=play,
    smaller=smaller,
    tables=(),
    works="texts",
    questions="tallies",
    promise="each word counted once",
)
