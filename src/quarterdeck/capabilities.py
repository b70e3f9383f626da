"""The list of capabilities: the one place that knows them all. Adding one is a package and a line here.

The order is that of the pages for people. A part that needs what another one offers stands after it.
"""

from typing import Final

from quarterdeck.capability import Capability
from quarterdeck.core.named import Named

_LIST: Final[tuple[Named[Capability], ...]] = (
    Named("quarterdeck.metrics.capability:METRICS"),
    Named("quarterdeck.scan.capability:SCAN"),
    Named("quarterdeck.recruiter.capability:RECRUITER"),
    Named("quarterdeck.search.capability:SEARCH"),
)

CAPABILITIES: Final = tuple(named.load() for named in _LIST)
