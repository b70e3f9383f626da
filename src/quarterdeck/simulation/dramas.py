"""What can be played: each drama has scenarios, faults, a world that plays them, and words for what it promises."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from quarterdeck.core.named import Named
from quarterdeck.core.transitions import TransitionTable
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WORKER_TABLE
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE
from quarterdeck.simulation import faults, scenario, shrink, world
from quarterdeck.simulation.outcome import AnyScenario, PlayOutcome
from quarterdeck.simulation.scenario import Scenario

ScenarioT = TypeVar("ScenarioT", bound=AnyScenario)


@dataclass(frozen=True, slots=True)
class Drama(Generic[ScenarioT]):
    name: str
    """What chooses it on the command line, as `--name`; the crew's needs no choosing."""
    place: Named["Drama[Any]"]
    """Where another process finds it."""
    faults: Mapping[str, type[object]]
    generate: Callable[[int, Collection[str]], ScenarioT]
    from_json: Callable[[str], ScenarioT]
    play: Callable[[ScenarioT], PlayOutcome[ScenarioT]]
    smaller: Callable[[ScenarioT], Iterator[ScenarioT]]
    tables: tuple[TransitionTable[Any, Any], ...]
    """Of which every entry should be met by enough seeds."""
    works: str
    """What its works are called."""
    questions: str
    """What it is asked is called."""
    promise: str

    def moves(self) -> list[str]:
        """Every entry of the tables, by the name it has in a summary."""
        return [name_of_move(state, trigger) for table in self.tables for state, trigger, _ in table]

    def shrink(self, outcome: PlayOutcome[ScenarioT]) -> PlayOutcome[ScenarioT]:
        return shrink.shrink_with(outcome, self.play, self.smaller)


def name_of_move(state: object, trigger: object) -> str:
    return f"{type(state).__name__.removesuffix('State').lower()}: {state}, {trigger}"


CREW: Final[Drama[Scenario]] = Drama(
    name="crew",
    place=Named("quarterdeck.simulation.dramas:CREW"),
    faults=faults.FAULTS,
    generate=scenario.generate,
    from_json=scenario.from_json,
    play=world.play,
    smaller=shrink.smaller,
    tables=(WORK_TABLE, WORKER_TABLE, ATTEMPT_TABLE),
    works="works",
    questions="queries",
    promise="no work was lost, done twice or left behind",
)
