"""The settings of a recruiter that is a process by itself."""

from pathlib import Path
from typing import ClassVar

from pydantic_settings import SettingsConfigDict

from quarterdeck.config.search import SearchSettings
from quarterdeck.config.values import Folder, Host, Port, SecondsOrZero


class RecruiterSettings(SearchSettings):
    """What a recruiter is told."""

    model_config = SettingsConfigDict(env_prefix="QUARTERDECK_RECRUITER_")
    process: ClassVar[str] = "recruiter"

    data_dir: Folder = Path("quarterdeck-data/recruiter")
    """Where it keeps what does not fit into memory while it runs; emptied at the start. One process at a time may have
    it."""
    http_host: Host = "127.0.0.1"
    """The address on which workers register and roots recruit. Other than loopback takes TLS files and a token, or
    `insecure`."""
    http_port: Port = 7073
    """The port on which workers register and roots recruit. One that another process has stops the start; with 0 no
    worker knows where to register."""
    shutdown_grace_s: SecondsOrZero = 10.0
    """Seconds that running requests may go on when the recruiter was told to stop; registrations are answered at once.
    Too low cuts off answers that were nearly there; too high delays a restart."""
