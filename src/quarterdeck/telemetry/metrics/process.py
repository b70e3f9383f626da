"""What every process reports about itself: its version, its lost log records, and what it uses of the machine.

The names of the last (`process_…`, `python_…`) are prometheus-client's, known to every dashboard.
"""

import platform
from typing import TYPE_CHECKING, Final

from quarterdeck import __version__
from quarterdeck.telemetry.logs import records_lost
from quarterdeck.telemetry.metrics.families import Audience, Description, Label, MetricType

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client import Metric as Exposed

_BUILD: Final = Description(
    "quarterdeck_build_info",
    MetricType.INFO,
    "The version of Quarterdeck, the version of Python, and the kind of process.",
    Audience.ON_CALL,
    (Label("version", ()), Label("python", ()), Label("process", ())),
)
_RECORDS_LOST: Final = Description(
    "quarterdeck_log_records_lost_total",
    MetricType.COUNTER,
    "Log records that could not be written, because stderr is closed or its disk is full.",
    Audience.ON_CALL,
)
OF_EVERY_PROCESS: Final = (_BUILD, _RECORDS_LOST)


class ProcessInfo:
    """A collector of prometheus-client's."""

    def __init__(self, process: str) -> None:
        self._labels = {"version": __version__, "python": platform.python_version(), "process": process}

    def describe(self) -> list["Exposed"]:
        return [description.exposed() for description in OF_EVERY_PROCESS]

    def collect(self) -> list["Exposed"]:
        build, lost = self.describe()
        build.add_sample(_BUILD.name, self._labels, 1)
        lost.add_sample(_RECORDS_LOST.name, {}, records_lost())
        return [build, lost]


def register_process(registry: "CollectorRegistry", process: str) -> None:
    """Once for each registry: a second time is an error, as one process has one registry."""
    from prometheus_client import GCCollector, PlatformCollector, ProcessCollector  # noqa: PLC0415 - loaded when needed

    registry.register(ProcessInfo(process))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
