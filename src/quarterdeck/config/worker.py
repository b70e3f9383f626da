"""The settings of a worker."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict

from quarterdeck.config.conflicts import Conflict, at_most, below
from quarterdeck.config.host import cores, host_name, memory_bytes
from quarterdeck.config.shared import CrewSettings
from quarterdeck.config.values import (
    Address,
    Addresses,
    Allowed,
    Bytes,
    BytesOrZero,
    Count,
    CountOrZero,
    Folder,
    Host,
    Name,
    Port,
    Seconds,
    SecondsOrZero,
    Share,
    Switch,
    Url,
    computed,
    items,
)
from quarterdeck.core.workcoord.kinds import WorkKind, work_kind

Kinds = Annotated[
    tuple[Annotated[WorkKind, AfterValidator(work_kind)], ...],
    NoDecode,
    BeforeValidator(items),
    Field(min_length=1),
    Allowed("a list of kinds of work, or one text with commas"),
]

_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to be told apart, not to be listened on


def _queue_places(settings: Mapping[str, Any]) -> int:
    return 2 * settings["slots"]


def _duckdb_memory_bytes(settings: Mapping[str, Any]) -> int:
    return max(1, settings["memory_bytes"] // (2 * settings["slots"]))


class WorkerSettings(CrewSettings):
    """What a worker is told."""

    model_config = SettingsConfigDict(env_prefix="QUARTERDECK_WORKER_")
    process: ClassVar[str] = "worker"

    worker_id: Name | None = None
    """The name by which coordinators know this worker, across restarts. Without one, it is made at the first start and
    kept in `data_dir`. Two workers that run at once must not share a name: the later start wins, and they take turns
    losing their work."""
    data_dir: Folder = Path("quarterdeck-data/worker")
    """Where results, the cache and the worker's identity are kept. One process at a time may use it. On a slow disk
    every query is slow. Without its identity the worker comes back as a new one with a cold cache."""
    node: Name = computed(host_name, "the host name")
    """The machine of this worker, as people and the crew's table know it. Two machines with one name look like one."""
    tenant: Name = "default"
    """Whose work this worker takes. Works of other tenants never come here, unless this is `default`: workers of
    `default` also do the works of tenants that have no workers."""
    kinds: Kinds | None = None
    """The kinds of work this worker takes, of those that are listed below. Without it, the worker takes all of them. A
    worker that is told to take any other kind does not start. Works of a kind that no worker takes wait until their
    query gives up."""
    slots: Count = computed(cores, "the cores this process may use")
    """Works that run at the same time, and one more for each further kind: no kind takes the last place from another.
    Too low leaves cores idle; too high makes works compete for cores and memory."""
    queue_places: CountOrZero = computed(_queue_places, "twice `slots`")
    """Works that are taken ahead while all slots are busy. Too low leaves a slot idle for a round trip between two
    works; too high keeps works here that another worker could begin. Beyond the default, works travel in bundles, and a
    work may wait 20 ms for one. With many small works that gives twice as many a second (try 64)."""
    memory_bytes: Bytes = computed(memory_bytes, "the memory this process may use; `up` divides it among its processes")
    """The memory that this worker may use; the memory of one query is computed from it. Close to it no work may become
    heavy; then the works of the query that uses most are ended, by name. If it is more than the machine has, the kernel
    may kill the process."""
    join: Addresses = ("127.0.0.1:7071",)
    """Control ports of coordinators to dial. If one is not there, the worker tries again for ever."""
    join_dns: Address | None = None
    """A name. Each of its addresses is a coordinator to dial. It is looked up again every `discovery_interval_s`."""
    control_listen: Address | None = None
    """Where coordinators dial this worker, if the worker does not dial them. An address off loopback needs TLS files
    and a token, or `insecure`."""
    http_host: Host = "127.0.0.1"
    """The address for fetching results. Coordinators on other machines must reach it. An address off loopback needs TLS
    files and a token, or `insecure`."""
    http_port: Port = 0
    """The port for fetching results; coordinators are told. 0 is fine unless a firewall has to know it. If another
    process has the port, the start fails."""
    advertise_url: Url | None = None
    """The URL by which coordinators reach `http_host` and `http_port`, if not by these. A wrong one costs every result:
    each work is done, cannot be fetched, and fails."""
    disk_limit_bytes: Bytes = 20 * 1024**3
    """Disk space for results and cache together. Too low downloads the same files again and again; too high fills the
    disk for everybody else on it."""
    disk_high_watermark: Share = 0.9
    """The share of `disk_limit_bytes` above which files are removed: first from the cache, then results that nobody
    waits for. Too low caches little; too high leaves no room for a burst."""
    disk_low_watermark: Share = 0.75
    """The share of `disk_limit_bytes` down to which files are removed then. Too low throws away what is needed again;
    too high, close to the other one, removes a little all the time."""
    artifact_floor_bytes: BytesOrZero = 1024**3
    """The part of `disk_limit_bytes` that the cache leaves to results. Too low lets results fail for lack of room; too
    high leaves the cache little."""
    disk_keep_free_bytes: BytesOrZero = 512 * 1024**2
    """Space that is left free on the file system, whatever the limit says. Too low lets the disk run full under other
    programs; too high refuses results while there is room."""
    cache_local_files: Switch = False
    """Whether to copy files on local paths into the cache. True helps if the path is a slow network mount, and wastes
    disk if it is not."""
    artifact_ttl_s: Seconds = 600.0
    """Seconds that a result is kept if nobody fetches it. Too low loses results that a busy coordinator would have
    fetched, and they are computed again; too high fills the disk for coordinators that are gone."""
    artifact_linger_s: SecondsOrZero = 30.0
    """Seconds that a result is kept after it was acknowledged. Too high fills the disk; 0 is safe."""
    drain_max_s: SecondsOrZero = 300.0
    """Seconds that works may go on after the worker was told to stop. Too low throws away works that were nearly done;
    too high delays a restart, or an orchestrator loses patience and kills it."""
    duckdb_threads: Count = 2
    """Threads of one query in DuckDB. Too low makes a single query slow; too high makes `slots` queries compete for the
    cores."""
    duckdb_memory_bytes: Bytes = computed(_duckdb_memory_bytes, "half of `memory_bytes`, divided by `slots`")
    """Memory of one query in DuckDB; a query that needs more fails. Too low fails queries that sort and group much; too
    high lets `slots` queries together use more than the machine has, and the kernel kills the process."""

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        yield from below("disk_low_watermark", self.disk_low_watermark, "disk_high_watermark", self.disk_high_watermark)
        yield from below("artifact_floor_bytes", self.artifact_floor_bytes, "disk_limit_bytes", self.disk_limit_bytes)
        yield from at_most("artifact_linger_s", self.artifact_linger_s, "artifact_ttl_s", self.artifact_ttl_s)
        yield from at_most("duckdb_memory_bytes", self.duckdb_memory_bytes, "memory_bytes", self.memory_bytes)
        yield from self._dialling_conflicts()
        if self.http_host in _EVERYWHERE and self.advertise_url is None:
            rule = f"coordinators cannot fetch from {self.http_host}: set advertise_url to what they reach it by"
            yield Conflict(("http_host", "advertise_url"), rule)

    def _dialling_conflicts(self) -> Iterator[Conflict]:
        dials = tuple(name for name in ("join", "join_dns") if name in self.model_fields_set and getattr(self, name))
        if self.control_listen is not None and dials:
            yield Conflict(("control_listen", *dials), "a worker dials coordinators, or they dial it")
        if self.control_listen is None and not self.join and self.join_dns is None:
            names = ("join", "join_dns", "control_listen")
            yield Conflict(names, "a worker without any of them could reach no coordinator, and none could reach it")
