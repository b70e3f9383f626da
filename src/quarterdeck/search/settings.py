"""The settings of log searches: of processes that are their root, and of a recruiter that is a process by itself."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from pydantic_settings import SettingsConfigDict

from quarterdeck.config.conflicts import Conflict, at_most
from quarterdeck.config.host import cores
from quarterdeck.config.section import Section, with_sections
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import Bytes, Count, Folder, Host, Port, Seconds, SecondsOrZero, Urls, computed


def _half_of_cores() -> int:
    return max(1, cores() // 2)


class SearchSettings(Section):
    """In a coordinator or recruiter, about the searches whose root it is."""

    section: ClassVar[str] = "search"
    former: ClassVar[Mapping[str, str]] = {
        "recruiters": "recruiters",
        "searches_at_once": "searches_at_once",
        "search_timeout_s": "timeout_s",
        "search_memory_bytes": "memory_bytes",
        "search_spool_bytes": "spool_bytes",
        "search_in_flight_bytes": "in_flight_bytes",
        "search_alone_at_once": "alone_at_once",
        "search_alone_memory_bytes": "alone_memory_bytes",
    }

    recruiters: Urls = ()
    """Other recruiters to ask for workers if this process has too few. One that is not there costs a search up to five
    seconds at its beginning."""
    searches_at_once: Count = 16
    """Log searches that run at the same time; the others wait in line. Too low lets people wait; too high takes memory:
    each may take `search.memory_bytes` for its rows, and as much for answers of workers."""
    timeout_s: Seconds = 600.0
    """Seconds that a log search may take, including the time the client takes to read; a search that asks for more gets
    this. Too low fails long searches; too high lets abandoned ones hold workers."""
    memory_bytes: Bytes = 256 * 1024**2
    """Memory for the rows of one log search; the rest goes to disk. Too low makes large answers slow; too high lets the
    kernel kill the process."""
    spool_bytes: Bytes = 10 * 1024**3
    """Disk space for the rows of one log search; a search that needs more fails with a message that says so. All
    searches together have no more than `spool_limit_bytes`. Too high lets one search take the room of all others."""
    in_flight_bytes: Bytes = 4 * 1024**3
    """Bytes of files that one log search has given to workers at any time. Everything that it finds in them may come at
    once; beyond 8 MiB for each part of a file it waits on disk. Too low leaves workers idle; too high takes disk and,
    for many workers, memory for searches that find nearly everything."""
    alone_at_once: Count = computed(_half_of_cores, "half of the processors that it may use")
    """Parts of files that this process searches itself at the same time, all searches together, while there are no
    workers. Too low makes searches slow; too high leaves no processor for everything else that it does."""
    alone_memory_bytes: Bytes = 512 * 1024**2
    """Memory of the engine for each of these parts; beyond that it writes to disk or fails. Too high lets the kernel
    kill the process."""

    def conflicts(self, process: ProcessSettings) -> Iterator[Conflict]:
        del process
        yield from at_most("search.memory_bytes", self.memory_bytes, "search.in_flight_bytes", self.in_flight_bytes)


class RecruiterSettings(ProcessSettings):
    """What a recruiter is told that is a process by itself, besides its sections."""

    model_config = SettingsConfigDict(env_prefix="QUARTERDECK_RECRUITER_")
    process: ClassVar[str] = "recruiter"

    data_dir: Folder = Path("quarterdeck-data/recruiter")
    """Where the recruiter keeps what does not fit into memory while it runs; emptied at the start. One process at a
    time may use it."""
    http_host: Host = "127.0.0.1"
    """The address where workers register and searches recruit. An address off loopback needs TLS files and a token, or
    `insecure`."""
    http_port: Port = 7073
    """The port where workers register and searches recruit. If another process has it, the start fails; with 0 no
    worker knows where to register."""
    spool_limit_bytes: Bytes = 10 * 1024**3
    """Disk space for the rows of all log searches together, and for files that this process downloads. Too low fails
    large searches; too high fills the disk for everybody else on it."""
    shutdown_grace_s: SecondsOrZero = 10.0
    """Seconds that running requests may go on after the recruiter was told to stop; registrations are answered at once.
    Too low cuts off answers that were nearly finished; too high delays a restart."""


RECRUITER_SETTINGS: Final = with_sections(RecruiterSettings, [SearchSettings])
"""With its sections."""
