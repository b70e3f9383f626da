"""Declared things as something that can be played."""

from typing import Final

from quarterdeck.core.named import Named
from quarterdeck.core.reconcile.tables import HOLDING_TABLE, THING_TABLE
from quarterdeck.simulation.declared import faults, scenario, world
from quarterdeck.simulation.declared.scenario import DeclaredScenario
from quarterdeck.simulation.dramas import Drama

DECLARED: Final[Drama[DeclaredScenario]] = Drama(
    name="declared",
    place=Named("quarterdeck.simulation.declared.drama:DECLARED"),
    faults=faults.FAULTS,
    generate=scenario.generate,
    from_json=scenario.from_json,
    play=world.play,
    smaller=scenario.smaller,
    tables=(THING_TABLE, HOLDING_TABLE),
    works="things",
    questions="states in the end",
    promise="what is declared is held, what is withdrawn is gone, what ends workers fails alone, and nothing was told "
    "before it was committed",
)
