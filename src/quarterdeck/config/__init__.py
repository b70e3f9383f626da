"""What a process is told: flags, environment, a YAML file, defaults. The one place where outside settings enter."""

from quarterdeck.config.coordinator import CoordinatorSettings
from quarterdeck.config.load import Configuration
from quarterdeck.config.problems import InvalidSettingsError
from quarterdeck.config.section import Section
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.worker import WorkerSettings

__all__ = [
    "Configuration",
    "CoordinatorSettings",
    "InvalidSettingsError",
    "ProcessSettings",
    "Section",
    "WorkerSettings",
]
