"""What a process is told: flags, environment, a YAML file, defaults. The one place where outside settings enter."""

from quarterdeck.config.coordinator import CoordinatorSettings
from quarterdeck.config.load import load_coordinator, load_recruiter, load_worker
from quarterdeck.config.problems import InvalidSettingsError
from quarterdeck.config.recruiter import RecruiterSettings
from quarterdeck.config.worker import WorkerSettings

__all__ = [
    "CoordinatorSettings",
    "InvalidSettingsError",
    "RecruiterSettings",
    "WorkerSettings",
    "load_coordinator",
    "load_recruiter",
    "load_worker",
]
