"""The pages of docs/ that are made from the code, with what every capability adds:

python -m quarterdeck.reference metrics > docs/metrics.md
python -m quarterdeck.reference configuration > docs/configuration.md
"""

import sys
from collections.abc import Sequence
from typing import Final

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability import Capability
from quarterdeck.capability.settings import configuration
from quarterdeck.config import ProcessSettings
from quarterdeck.config import reference as settings
from quarterdeck.telemetry import reference as metrics


def metrics_page(capabilities: Sequence[Capability] = CAPABILITIES) -> str:
    return metrics.render([one.metrics.load() for one in capabilities if one.metrics is not None])


def configuration_page(capabilities: Sequence[Capability] = CAPABILITIES) -> str:
    return settings.render(
        every_process(capabilities), [(kind, one.name) for one in capabilities for kind in one.kinds]
    )


def every_process(capabilities: Sequence[Capability]) -> Sequence[type[ProcessSettings]]:
    """The settings of each kind of process."""
    known = configuration(capabilities)
    own = [process.settings.load() for one in capabilities for process in one.processes]
    return [known.coordinator, known.worker, *own]


PAGES: Final = {"metrics": metrics_page, "configuration": configuration_page}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
