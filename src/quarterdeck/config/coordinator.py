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
    Name,
    Port,
    Seconds,
    SecondsOrZero,
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

    coordinator_id: Name = computed(_new_id, "the host name and something random, new at each start")
    """The name by which workers and logs know this coordinator. Two coordinators that run at once must not share a
    name: a worker would take the second for the first come back."""
    data_dir: Folder = Path("quarterdeck-data/coordinator")
    """Where fetched results are spooled; emptied at the start. One process at a time may use it. On a slow disk large
    results are slow."""
    memory_bytes: Bytes = computed(memory_bytes, "the memory this process may use; `up` divides it among its processes")
    """The memory that this coordinator may use for all queries together. Close to it no query may become heavy; then
    the query that uses most is ended, by name. If it is more than the machine has, the kernel may kill the process; if
    it is little more than the idle process uses, useful queries are refused."""
    http_host: Host = "127.0.0.1"
    """The address for people and programs. An address off loopback needs TLS files and a token, or `insecure`."""
    http_port: Port = 7070
    """The port for people and programs. If another process has it, the start fails; 0 means another port with each
    start."""
    control_host: Host = "127.0.0.1"
    """The address where workers join. An address off loopback needs TLS files and a token, or `insecure`."""
    control_port: Port = 7071
    """The port where workers join. If another process has it, the start fails; with 0 no worker knows where to join."""
    workers: Addresses = ()
    """Workers to dial, which were started with `control_listen`. If one is not there, the coordinator tries again for
    ever, which costs a connection attempt every `reconnect_max_s`."""
    workers_dns: Address | None = None
    """A name, such as a headless service. Each of its addresses is a worker to dial. It is looked up again every
    `discovery_interval_s`."""
    heartbeat_interval_s: Seconds = 1.0
    """Seconds between two heartbeats, both ways. Too low costs messages with many workers. Too high finds a silent
    worker late: it is lost after this times `lost_after_missed`."""
    warn_after_missed: Count = 2
    """Heartbeats that a worker may miss before it gets no new work. Too low spares workers that only paused; too high
    gives work to dead ones."""
    lost_after_missed: Count = 3
    """Heartbeats that a worker may miss before its work is given to others. Too low does work twice whenever a worker
    pauses; too high lets queries wait for dead workers."""
    spill_after_s: SecondsOrZero = 0.1
    """Seconds that a work waits for the worker whose cache has its files. If that worker has not begun it then, an idle
    one may take it. Too low wastes caches; too high leaves workers idle beside a queue."""
    window_works: Count = 256
    """Works of one query that are given out ahead of what its client has read. Too low leaves workers idle between
    results; too high fills the spool for a client that reads slowly."""
    wait_limit_s: SecondsOrZero = 30.0
    """Seconds that a query waits if there is no worker for it at all. Too low fails queries while workers restart; too
    high lets people wait for nothing."""
    fetch_timeout_s: Seconds = 60.0
    """Seconds to fetch one result from a worker. Too low makes large results fail and be computed again; too high lets
    a broken transfer hold a place in `fetches_at_once`."""
    fetch_stall_timeout_s: Seconds = 10.0
    """Seconds that a fetch may make no progress before it is broken off. Too low breaks off busy workers; too high
    waits for dead ones."""
    fetches_at_once: Count = 64
    """Results that are fetched at the same time. Too low lets finished results wait on their workers; too high takes
    connections, memory and disk bandwidth."""
    fetch_memory_bytes: BytesOrZero = 256 * 1024
    """The largest result that is kept in memory instead of on disk. Too low writes many small files. Too high takes up
    to this much for every fetched result that nobody has read yet: `window_works` of them for each query."""
    spool_limit_bytes: Bytes = 10 * 1024**3
    """Disk space for fetched results of all queries together, for the rows of log searches, and for files that this
    process downloads. Too low stops fetching until clients have read, and fails large searches; too high fills the disk
    for everybody else on it."""
    database_url: UrlWithPassword = computed(_catalog, "`lake/catalog.db` beside `data_dir`")
    """The database with the tables of all capabilities, such as the list of files in the lake: the path of an SQLite
    file, or `postgresql://user:password@host/name`. Coordinators that share it and the lake give the same answers. If
    it is slow, every query waits for it."""
    leadership_lease_s: Seconds = 10.0
    """Seconds for which a leader that says nothing still counts as one, where coordinators elect a leader: only a
    capability that declares state needs one. Too low loses leadership whenever the process or the database pauses: the
    database must answer within 0.3 of it. Too high leaves declared state to nobody for longer when a leader dies."""
    shutdown_grace_s: SecondsOrZero = 10.0
    """Seconds that running queries may go on after the coordinator was told to stop. Too low cuts off answers that were
    nearly finished; too high delays a restart."""

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        yield from below("warn_after_missed", self.warn_after_missed, "lost_after_missed", self.lost_after_missed)
        yield from at_most("fetch_stall_timeout_s", self.fetch_stall_timeout_s, "fetch_timeout_s", self.fetch_timeout_s)
        yield from at_most("fetch_memory_bytes", self.fetch_memory_bytes, "spool_limit_bytes", self.spool_limit_bytes)
        if self.http_port == self.control_port != 0 and self.http_host == self.control_host:
            names = ("http_host", "http_port", "control_host", "control_port")
            yield Conflict(names, "two servers cannot share an address and a port")
