"""Log search, on workers that are reserved for it."""

from typing import Final

from quarterdeck.capability import Capability, Command, CompiledCode, OwnProcess, Shelf, World
from quarterdeck.core.named import Named

SEARCH: Final = Capability(
    name="search",
    coordinator_settings=Named("quarterdeck.search.settings:SearchSettings"),
    processes=(OwnProcess("recruiter", Named("quarterdeck.search.settings:RECRUITER_SETTINGS")),),
    metrics=Named("quarterdeck.search.metering:METRICS_OF_SEARCH"),
    on_coordinator=Named("quarterdeck.search.on_coordinator:SearchOnCoordinator"),
    on_worker=Named("quarterdeck.search.on_worker:search_on_worker"),
    compiled=CompiledCode(("quarterdeck.search.engine",), Named("quarterdeck.search.engine.line_code:compile_lines")),
    to_try=("quarterdeck search 'error | count() by host' LOGS",),
    commands=(
        Command("search", "Search logs on the crew, or alone.", Named("quarterdeck.search.commands.signatures:search")),
        Command(
            "recruiter",
            "Run a recruiter by itself.",
            Named("quarterdeck.search.commands.signatures:recruiter"),
            Shelf.PROCESSES,
        ),
    ),
    worlds=(
        World(
            "recruiting",
            "Play recruiters, workers and searches instead of a crew: no worker is given to two, none is lost, and "
            "each part of a search counts once.",
            Named("quarterdeck.search.world.drama:RECRUITING"),
        ),
    ),
)
