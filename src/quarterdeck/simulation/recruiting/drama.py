"""Recruiting as something that can be played."""

from quarterdeck.recruiter.machine.reservation_table import RESERVATION_TABLE
from quarterdeck.recruiter.machine.search_records import CHUNK_TABLE
from quarterdeck.simulation.dramas import Drama
from quarterdeck.simulation.recruiting import faults, scenario, world
from quarterdeck.simulation.recruiting.scenario import Scenario

RECRUITING: Drama[Scenario] = Drama(
    name="recruiting",
    option="--recruiting",
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
