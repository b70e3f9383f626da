"""The pages of docs/ that are made from the code, with what every capability adds:

python -m quarterdeck.reference metrics > docs/metrics.md
"""

import sys
from typing import Final

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.telemetry.reference import render


def metrics_page() -> str:
    return render([one.metrics.load() for one in CAPABILITIES if one.metrics is not None])


PAGES: Final = {"metrics": metrics_page}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
