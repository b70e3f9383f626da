"""Recruiting as something that can be played."""

from quarterdeck.core.named import Named
from quarterdeck.recruiter.machine.reservation_table import RESERVATION_TABLE
from quarterdeck.search.machine.search_records import CHUNK_TABLE
from quarterdeck.search.world import faults, scenario, world
from quarterdeck.search.world.scenario import Scenario
from quarterdeck.simulation.dramas import Drama

RECRUITING: Drama[Scenario] = Drama(
    name="recruiting",
    place=Named("quarterdeck.search.world.drama:RECRUITING"),
    faults=faults.FAULTS,
    generate=scenario.generate,
    from_json=scenario.from_json,
    play=world.play,
    smaller=scenario.smaller,
    tables=(RESERVATION_TABLE, CHUNK_TABLE),
    works="chunks",
    questions="searches",
    promise="no worker was lost or given to two, and each chunk counted once",
)
