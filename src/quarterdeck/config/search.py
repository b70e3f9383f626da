"""The settings of processes that are the root of log searches."""

from collections.abc import Iterator

from quarterdeck.config.conflicts import Conflict, at_most
from quarterdeck.config.host import cores
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import Bytes, Count, Seconds, Urls, computed


def _half_of_cores() -> int:
    return max(1, cores() // 2)


class SearchSettings(ProcessSettings):
    """What coordinators and recruiters are told about the searches whose root they are."""

    recruiters: Urls = ()
    """Other recruiters to ask for workers, when this process has too few itself. One that is not there costs a search
    up to five seconds at its beginning."""
    searches_at_once: Count = 16
    """Log searches that run at the same time; one more is refused. Too low refuses people; too high takes memory: each
    may take `search_memory_bytes` for its rows, and as much for answers of workers."""
    search_timeout_s: Seconds = 600.0
    """Seconds that a log search may take, including the time the client takes to read; one that asks for more gets
    this. Too low fails long searches; too high lets abandoned ones hold workers."""
    search_memory_bytes: Bytes = 256 * 1024**2
    """What one log search keeps of its rows in memory; the rest goes to disk. Too low makes large answers slow; too
    high lets the kernel kill the process."""
    search_spool_bytes: Bytes = 10 * 1024**3
    """What one log search may keep of its rows on disk; one that needs more fails with a message that says so. Files
    from S3 that this process has to search itself may take as much again. Too high fills the disk for everybody else
    on it."""
    search_in_flight_bytes: Bytes = 4 * 1024**3
    """Of files that one log search has given to workers. All that it finds in them may come at once, and waits on disk
    beyond 8 MiB for each part of a file. Too low leaves workers idle; too high takes disk and, for many workers, memory
    for searches that find nearly everything."""
    search_alone_at_once: Count = computed(_half_of_cores, "half of the processors that it may use")
    """Parts of files that this process searches itself at the same time, all searches together, while there are no
    workers. Too low makes searches slow; too high leaves no processor for everything else that it does."""
    search_alone_memory_bytes: Bytes = 512 * 1024**2
    """What the engine may use for each of them; beyond that it writes to disk or fails. Too high lets the kernel kill
    the process."""

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        yield from at_most(
            "search_memory_bytes", self.search_memory_bytes, "search_in_flight_bytes", self.search_in_flight_bytes
        )
