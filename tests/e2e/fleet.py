"""Coordinators that dial different workers of one crew, over one lake."""

from dataclasses import dataclass

from tests.e2e.crew import Coordinator, Crew, Worker
from tests.e2e.samples import Samples, Store

NAMES = ("bow", "beam", "stern")
"""Each is the home of one or two of the first four shards."""


@dataclass(frozen=True)
class Fleet:
    """What it reads is in the cache of its workers, and each of them has one work at a time."""

    wide: Coordinator
    """It dials all workers."""
    narrow: Coordinator
    """It dials the last one."""
    strict: Coordinator
    """It dials the last one too, and allows little."""
    workers: list[Worker]
    store: Store
    tide: Samples
    """So many that a query of them has four works."""

    @classmethod
    def start(cls, crew: Crew) -> "Fleet":
        workers = [
            crew.worker(name, "--listen", "127.0.0.1:0", cache_local_files=True, queue_places=128, kinds="leaf")
            for name in NAMES
        ]
        addresses = [worker.control for worker in workers]

        def dialling(name: str, *targets: str, **settings: object) -> Coordinator:
            dials = [argument for target in targets for argument in ("--dial", target)]
            return crew.coordinator(name, *dials, reconnect_max_s=0.5, **settings)

        wide = dialling("wide", *addresses)
        narrow = dialling("narrow", addresses[-1])
        strict = dialling(
            "strict",
            addresses[-1],
            metrics__queries_at_once=2,
            metrics__query_max_samples=700_000,
            metrics__query_max_series=1500,
            metrics__query_memory_bytes=32 << 20,
        )
        tide = Samples("tide", series=1120, times=2600)
        return cls(wide, narrow, strict, workers, Store.of(wide), tide)

    @property
    def last(self) -> Worker:
        """Whom all coordinators dial."""
        return self.workers[-1]

    def mended(self) -> "Fleet":
        for member in (self.wide, self.narrow, self.strict, *self.workers):
            if not member.is_running:
                member.start()
        self.wide.wait_for(*self.workers)
        self.narrow.wait_for(self.last)
        self.strict.wait_for(self.last)
        return self
