"""Works per second and the round trip of one work, with two worker processes and works that do nothing, beside
dask.distributed with two worker processes in the same run.

A work of ours is submitted, assigned, accepted, executed, written as a Parquet artifact, announced, fetched over HTTP,
verified, acknowledged and delivered in order. A task of dask's is submitted, executed, and its result gathered.

    python bench/control.py [--works 4000] [--profile]
"""

import argparse
import asyncio
import cProfile
import logging
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from quarterdeck.config import CoordinatorSettings
from quarterdeck.control.server import ControlServer
from quarterdeck.core.ids import CoordinatorId, LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig
from quarterdeck.core.workcoord.coordinator.tables import WorkerState
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.fetcher import ArtifactFetcher
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.driver import Observers
from quarterdeck.crew.harvest import Harvest, Window
from quarterdeck.crew.observers.journal import CoordinatorJournal
from quarterdeck.crew.observers.metering import CoordinatorMeter
from quarterdeck.crew.observers.summaries import Summaries
from quarterdeck.scan.model import SCAN
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.logs import configure
from quarterdeck.telemetry.metrics import CoordinatorMetrics

ROUND_TRIPS = 300


@dataclass(frozen=True, slots=True)
class Figures:
    works_per_s: float
    round_trips_s: list[float]

    def quantile_ms(self, share: float) -> float:
        return sorted(self.round_trips_s)[int(share * (len(self.round_trips_s) - 1))] * 1000


def noop(number: int) -> int:
    return number


# Ours


class Bridge:
    """A coordinator in this process, as `quarterdeck coordinator` wires it."""

    def __init__(self, folder: Path) -> None:
        settings = CoordinatorSettings(coordinator_id="bench", data_dir=folder)
        clock = MonotonicClock()
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("bench")))
        meter = CoordinatorMeter(CoordinatorMetrics(new_registry()), self.machine, clock)
        self.fetcher = ArtifactFetcher(
            folder,
            DiskBudget(folder, DiskLimits(settings.spool_limit_bytes)),
            timeout_s=settings.fetch_timeout_s,
            stall_timeout_s=settings.fetch_stall_timeout_s,
            memory_limit_bytes=settings.fetch_memory_bytes,
            at_once=settings.fetches_at_once,
            on_begin=meter.fetch_began,
            address_of=self._address_of,
        )
        self.driver: CoordinatorDriver[FetchedArtifact] = CoordinatorDriver(
            self.machine,
            clock=clock,
            ids=RandomIds(),
            fetcher=self.fetcher,
            observer=Observers[ev.Event, ef.Effect](meter, CoordinatorJournal(), Summaries(clock)),
        )
        self.server = ControlServer(self.driver.serve)

    def _address_of(self, worker_id: WorkerId) -> str | None:
        session = self.machine.roster.of_worker(worker_id)
        return None if session is None else session.worker.address

    async def wait_for_workers(self, number: int) -> None:
        async with asyncio.timeout(60):
            while sum(s.state is WorkerState.ACCEPTING for s in self.machine.roster.sessions()) < number:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def run(self, query: str, works: int) -> None:
        query_id = QueryId(query)
        specs = (
            WorkSpec(
                WorkKey(query_id, LeafId("l"), WorkId(f"{query}/{number}")),
                SCAN,
                affinity_key=f"{number}",
            )
            for number in range(works)
        )
        harvest = Harvest(
            self.driver,
            query_id,
            specs,
            window=Window(256, 1 << 30),
            size_of=lambda result: result.metadata.size_bytes,
            wait_limit_s=10.0,
        )
        came = 0
        async with harvest:
            async for _, result in harvest.results():
                result.release()
                came += 1
        assert came == works


@contextmanager
def worker_processes(control: str, folder: Path) -> Generator[list[int]]:
    read_end, write_end = os.pipe()
    script = Path(__file__).with_name("noop_worker.py")
    processes = [
        subprocess.Popen([sys.executable, script, control, folder / f"w{n}", str(read_end)], pass_fds=(read_end,))
        for n in range(2)
    ]
    try:
        yield [process.pid for process in processes]
    finally:
        os.close(write_end)
        os.close(read_end)
        for process in processes:
            process.terminate()
            process.wait(30)


async def measure_ours(works: int, profile: bool) -> Figures:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        bridge = Bridge(folder / "spool")
        await bridge.fetcher.start()
        running = asyncio.create_task(bridge.driver.run())
        await bridge.server.start("127.0.0.1", 0)
        with worker_processes(f"127.0.0.1:{bridge.server.port}", folder) as pids:
            await bridge.wait_for_workers(2)
            await bridge.run("warm", works // 4)
            profiler = cProfile.Profile() if profile else None
            if profiler is not None:
                profiler.enable()
            began, cpu, workers_cpu = time.perf_counter(), time.process_time(), _cpu_s(pids)
            await bridge.run("rate", works)
            took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
            workers_cpu_s = _cpu_s(pids) - workers_cpu
            if profiler is not None:
                profiler.disable()
                _print_profile(profiler, works)
            for name, seconds in (("coordinator", cpu_s), ("worker", workers_cpu_s)):
                print(f"CPU for one work, {name}: {seconds / works * 1e6:.0f} µs")
            round_trips: list[float] = []
            for number in range(ROUND_TRIPS):
                began = time.perf_counter()
                await bridge.run(f"single{number}", 1)
                round_trips.append(time.perf_counter() - began)
        bridge.driver.stop("the bench is over")
        await asyncio.wait((running,))
        await bridge.server.stop()
        await bridge.fetcher.close()
    return Figures(works / took_s, round_trips)


def _cpu_s(pids: list[int]) -> float:
    """What processes have used so far, in the system and out of it."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _print_profile(profiler: cProfile.Profile, works: int) -> None:
    stats = pstats.Stats(profiler)
    rows: list[tuple[float, str]] = []
    for (file, line, name), (_, calls, own_s, _, _) in stats.stats.items():  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        where = f"{Path(str(file)).parent.name}/{Path(str(file)).name}:{line} {name}"  # pyright: ignore[reportUnknownArgumentType]
        rows.append((float(own_s) / works * 1e6, f"{float(calls) / works:6.1f} calls  {where}"))  # pyright: ignore[reportUnknownArgumentType]
    print("µs for each work, by function, under the profiler:")
    for own_us, text in sorted(rows, reverse=True)[:40]:
        print(f"{own_us:8.1f}  {text}")


# Dask's


def measure_dask(works: int) -> Figures:
    import distributed  # pyright: ignore[reportMissingTypeStubs] # noqa: PLC0415 - ours is measured without it

    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask: Any = distributed
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        client.gather(client.map(noop, range(works // 4), pure=False))
        began = time.perf_counter()
        results = client.gather(client.map(noop, range(works), pure=False))
        took_s = time.perf_counter() - began
        assert len(results) == works
        round_trips: list[float] = []
        for number in range(ROUND_TRIPS):
            began = time.perf_counter()
            client.submit(noop, number, pure=False).result()
            round_trips.append(time.perf_counter() - began)
    return Figures(works / took_s, round_trips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=int, default=4000, help="works to give out")
    parser.add_argument("--profile", action="store_true", help="print where the coordinator's time goes")
    parser.add_argument("--no-peer", action="store_true", help="leave dask out")
    arguments = parser.parse_args()
    configure("json", "warning")
    ours = uvloop.run(measure_ours(arguments.works, arguments.profile))
    _print_figures("quarterdeck", ours)
    if arguments.no_peer:
        return
    dask = measure_dask(arguments.works)
    _print_figures("dask", dask)
    print(
        f"ratio: {ours.works_per_s / dask.works_per_s:.1f} times dask's rate; round trip p50 "
        f"{ours.quantile_ms(0.5) / dask.quantile_ms(0.5):.2f} of dask's, "
        f"p99 {ours.quantile_ms(0.99) / dask.quantile_ms(0.99):.2f}"
    )


def _print_figures(name: str, figures: Figures) -> None:
    print(
        f"{name:12} {figures.works_per_s:8.0f} works/s   round trip p50 {figures.quantile_ms(0.5):6.2f} ms   "
        f"p99 {figures.quantile_ms(0.99):6.2f} ms   mean {statistics.mean(figures.round_trips_s) * 1000:6.2f} ms"
    )


if __name__ == "__main__":
    main()
