"""The settings of a coordinator."""

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic_settings import SettingsConfigDict

from quarterdeck.config.conflicts import Conflict, at_most, below
from quarterdeck.config.host import host_name, memory_bytes
from quarterdeck.config.shared import CrewSettings
from quarterdeck.config.values import (
    Address,
    Addresses,
    Bytes,
    BytesOrZero,
    Count,
    Folder,
    Host,
    Port,
    Seconds,
    SecondsOrZero,
    Text,
    UrlWithPassword,
    computed,
)


def _new_id() -> str:
    return f"{host_name()}-{secrets.token_hex(4)}"


def _catalog(settings: Mapping[str, Any]) -> str:
    return str(settings["data_dir"].parent / "lake" / "catalog.db")


class CoordinatorSettings(CrewSettings):
    """What a coordinator is told."""

    model_config = SettingsConfigDict(env_prefix="QUARTERDECK_COORDINATOR_")
    process: ClassVar[str] = "coordinator"

    coordinator_id: Text = computed(_new_id, "the host name and something random, new at each start")
    """The name workers and logs know this coordinator by. Two that run at once must not share one: a worker would take
    the second for the first come back."""
    data_dir: Folder = Path("quarterdeck-data/coordinator")
    """Where fetched results are spooled; emptied at the start. One process at a time may have it. On a slow disk large
    results are slow."""
    memory_bytes: Bytes = computed(memory_bytes, "the memory this process may use; `up` divides it among its processes")
    """The memory that this coordinator may use, all queries together. Close to it no query may become heavy, and then
    the one that has the most is ended, by name. More than there is lets the kernel kill the process; little more than
    the idle process takes refuses useful queries."""
    http_host: Host = "127.0.0.1"
    """The address on which people and programs ask. Other than loopback takes TLS files and a token, or `insecure`."""
    http_port: Port = 7070
    """The port on which people and programs ask. One that another process has stops the start; 0 changes with each
    start."""
    control_host: Host = "127.0.0.1"
    """The address on which workers join. Other than loopback takes TLS files and a token, or `insecure`."""
    control_port: Port = 7071
    """The port on which workers join. One that another process has stops the start; with 0 no worker knows where to
    join."""
    workers: Addresses = ()
    """Workers to dial, those that were started with `control_listen`. One that is not there is tried again for ever,
    and costs a connection attempt every `reconnect_max_s`."""
    workers_dns: Address | None = None
    """A name whose every address is a worker to dial, such as a headless service, looked up again every
    `discovery_interval_s`."""
    heartbeat_interval_s: Seconds = 1.0
    """Seconds between two heartbeats, both ways. Too low costs messages with many workers; too high finds a silent
    worker late: it is lost after this times `lost_after_missed`."""
    warn_after_missed: Count = 2
    """Heartbeats a worker may miss before it gets no new work. Too low spares workers that only paused; too high gives
    work to the dead."""
    lost_after_missed: Count = 3
    """Heartbeats a worker may miss before its work is given to others. Too low does work twice whenever a worker
    pauses; too high keeps queries waiting for the dead."""
    spill_after_s: SecondsOrZero = 0.1
    """Seconds a work waits for the worker whose cache has its files, before that one has begun it, until an idle one
    may take it. Too low wastes caches; too high leaves workers idle next to a queue."""
    window_works: Count = 256
    """Works of one query that are given out ahead of what its client has read. Too low leaves workers idle between
    results; too high fills the spool for a client that reads slowly."""
    wait_limit_s: SecondsOrZero = 30.0
    """Seconds a query waits when there is no worker for it at all. Too low fails queries while workers restart; too
    high lets people wait for nobody."""
    fetch_timeout_s: Seconds = 60.0
    """Seconds to fetch one result from a worker. Too low makes large results fail and be computed again; too high holds
    a place in `fetches_at_once` for a broken transfer."""
    fetch_stall_timeout_s: Seconds = 10.0
    """Seconds a fetch may stand still before it is broken off. Too low breaks off busy workers; too high waits for dead
    ones."""
    fetches_at_once: Count = 64
    """Results that are fetched at the same time. Too low lets finished results wait on their workers; too high takes
    connections, memory and disk bandwidth."""
    fetch_memory_bytes: BytesOrZero = 256 * 1024
    """The largest result that is kept in memory instead of on disk. Too low writes many small files; too high takes up
    to this for every result that was fetched and not read: `window_works` of them for each query."""
    spool_limit_bytes: Bytes = 10 * 1024**3
    """What fetched results may take on disk, all queries together. Too low stops fetching until clients have read; too
    high fills the disk for everybody else on it."""
    database_url: UrlWithPassword = computed(_catalog, "`lake/catalog.db` beside `data_dir`")
    """The database with the tables of all capabilities, such as which files there are in the lake. The path of an
    SQLite file, or `postgresql://user:password@host/name`. Coordinators that share it and the lake give the same
    answers; on a slow one every query waits for a look at it."""
    shutdown_grace_s: SecondsOrZero = 10.0
    """Seconds that running queries may go on when the coordinator was told to stop. Too low cuts off answers that were
    nearly there; too high delays a restart."""

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        yield from below("warn_after_missed", self.warn_after_missed, "lost_after_missed", self.lost_after_missed)
        yield from at_most("fetch_stall_timeout_s", self.fetch_stall_timeout_s, "fetch_timeout_s", self.fetch_timeout_s)
        yield from at_most("fetch_memory_bytes", self.fetch_memory_bytes, "spool_limit_bytes", self.spool_limit_bytes)
        if self.http_port == self.control_port != 0 and self.http_host == self.control_host:
            names = ("http_host", "http_port", "control_host", "control_port")
            yield Conflict(names, "two servers cannot share an address and a port")
