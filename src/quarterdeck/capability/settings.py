"""The settings of the program with those of its capabilities. It loads pydantic: for processes, not for help."""

from collections.abc import Iterable

from quarterdeck.capability.model import Capability
from quarterdeck.config import Configuration


def configuration(capabilities: Iterable[Capability]) -> Configuration:
    given = tuple(capabilities)
    return Configuration(
        [one.coordinator_settings for one in given if one.coordinator_settings is not None],
        [one.worker_settings for one in given if one.worker_settings is not None],
        [process.name for one in given for process in one.processes],
    )
