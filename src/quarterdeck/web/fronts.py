"""The front pages of our processes, without what their parts add."""

from collections.abc import Iterable
from typing import Final

from quarterdeck.web.front import Ask, Front, Panel, curl


def coordinator(asks: Iterable[Ask]) -> Front:
    return Front(
        "coordinator",
        "It plans queries, gives their parts to its crew of workers, and puts the answers together.",
        (*asks, Ask("The crew and its queries, on a terminal", "quarterdeck status --url {url}")),
        (Panel("crew", "v1/crew", "Crew"), Panel("queries", "v1/queries?limit=25", "Queries")),
    )


WORKER: Final = Front(
    "worker",
    "It executes what it is given, and keeps files in its cache. Queries are for a coordinator.",
    (Ask("Its figures", curl("/monitor/scaling")),),
    (Panel("figures", "monitor/scaling", "Load"),),
)
