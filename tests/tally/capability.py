"""What the capability contributes, by name. Nothing heavy may be imported here."""

from typing import Final

from quarterdeck.capability import Capability, Command, World
from quarterdeck.core.named import Named
from quarterdeck.core.workcoord.kinds import WorkKind

TALLY: Final = Capability(
    name="tally",
    coordinator_settings=Named("tests.tally.settings:TallySettings"),
    worker_settings=Named("tests.tally.settings:CountingSettings"),
    schema=Named("tests.tally.tables:TALLY_SCHEMA"),
    metrics=Named("tests.tally.metering:METRICS_OF_TALLY"),
    on_coordinator=Named("tests.tally.on_coordinator:TallyOnCoordinator"),
    on_worker=Named("tests.tally.on_worker:TallyOnWorker"),
    kinds=(WorkKind("tally"),),
    commands=(Command("tally", "Count the words of a text on the crew.", Named("tests.tally.signatures:tally")),),
    worlds=(World("tallying", "Play tallies: each word counts once.", Named("tests.tally.world:TALLYING")),),
)
