"""The list of capabilities: the one place that knows them all. Adding one is a package and a line here.

The order is that of the pages for people. A part that needs what another one offers stands after it.
"""

from typing import Final

from quarterdeck.metrics.capability import METRICS
from quarterdeck.recruiter.capability import RECRUITER
from quarterdeck.scan.capability import SCAN
from quarterdeck.search.capability import SEARCH

CAPABILITIES: Final = (METRICS, SCAN, RECRUITER, SEARCH)
