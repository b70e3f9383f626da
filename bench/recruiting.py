"""A recruiter with thousands of registrations held open: how fast it takes them, how fast it gives workers away, and
what one costs in memory. `python bench/recruiting.py`.

The recruiter is a real process. Whoever registers and recruits is this one, on sockets of its own, over loopback; a
worker that was recruited registers again at once. Everything is measured with few registrations and with many, in one
run: what a recruit costs should not depend on how many there are.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import psutil
import uvloop

from quarterdeck.stores.data_folder import announced

FEW: Final = 50
MANY: Final = 5000
NODES: Final = 250
SECONDS: Final = 3.0
"""For each measurement of recruits."""
PACE: Final = 1000
"""Recruits a second, when they come at a steady pace."""
AT_ONCE: Final = 8
_TOKEN: Final = "what-this-bench-and-its-recruiter-share"
_SHOWN: Final = f"Host: localhost\r\nAuthorization: Bearer {_TOKEN}\r\n"
_STATS: Final = f"GET /recruiter/stats HTTP/1.1\r\n{_SHOWN}\r\n".encode()
_POLL_MS: Final = 600_000
_OPENING: Final = 200
"""Connections that are made at the same time."""


def request(path: str, document: object) -> bytes:
    body = json.dumps(document).encode()
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    head = f"POST {path} HTTP/1.1\r\n{_SHOWN}{kind}\r\n"
    return head.encode() + body


class Worker(asyncio.Protocol):
    """Registers, and again as soon as it was recruited."""

    reserved = 0

    def __init__(self, number: int) -> None:
        self._request = request(
            "/recruiter/register",
            {"addr": f"worker-{number}:7000", "node_name": f"node-{number % NODES}", "timeout": _POLL_MS},
        )
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if b'"reserved"' in data:
            Worker.reserved += 1
            self._transport.write(self._request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Root(asyncio.Protocol):
    """One connection; requests are answered in their order."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (at := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:at].lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            end = at + 4 + length
            if len(self._received) < end:
                return
            body, self._received = self._received[at + 4 : end], self._received[end:]
            self._waiting.popleft().set_result(body)

    async def ask(self, asked: bytes) -> bytes:
        assert self._transport is not None
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        self._transport.write(asked)
        return await answered

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


@dataclass(frozen=True, slots=True)
class Recruits:
    """A measurement of recruits."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of the recruiter for one, the registrations after it included."""

    def __str__(self) -> str:
        times = f"p50 {self.p50_ms:7.2f} ms  p99 {self.p99_ms:7.2f} ms"
        return f"{self.rate:7,.0f} recruits/s  {times}  {self.cpu_us:6,.0f} µs of the recruiter each"


class Scene:
    """The recruiter and whoever is connected with it."""

    def __init__(self, url: str, server: psutil.Process) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._server = server
        self._workers: list[Worker] = []
        self._roots: list[Root] = []

    async def connect(self) -> None:
        for _ in range(AT_ONCE):
            _, root = await asyncio.get_running_loop().create_connection(Root, *self._address)
            await root.ask(_STATS)  # a connection on which nothing is asked is closed after a while
            self._roots.append(root)

    def close(self) -> None:
        for one in (*self._workers, *self._roots):
            one.close()

    @property
    def memory_bytes(self) -> int:
        return self._server.memory_info().rss

    def _cpu_s(self) -> float:
        times = self._server.cpu_times()
        return times.user + times.system

    async def free(self) -> int:
        return json.loads(await self._roots[0].ask(_STATS))["len_free_pool"]

    async def register(self, number: int) -> float:
        """Until so many are registered; the rate."""
        loop, begun_s, before = asyncio.get_running_loop(), time.perf_counter(), len(self._workers)
        for first in range(before, number, _OPENING):
            made = [
                loop.create_connection(lambda number=number: Worker(number), *self._address)
                for number in range(first, min(number, first + _OPENING))
            ]
            self._workers += [worker for _, worker in await asyncio.gather(*made)]
        while await self.free() < number:  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0.001)
        return (number - before) / (time.perf_counter() - begun_s)

    async def recruit_closely(self, at_once: int, workers: int) -> Recruits:
        """Each asks again as soon as it has its answer."""
        asked, took_s = request("/recruiter/recruit", {"number_requested": workers}), list[float]()
        begun_s, begun_cpu_s = time.perf_counter(), self._cpu_s()

        async def go(root: Root) -> None:
            while (sent_s := time.perf_counter()) < begun_s + SECONDS:
                await root.ask(asked)
                took_s.append(time.perf_counter() - sent_s)

        await asyncio.gather(*(go(root) for root in self._roots[:at_once]))
        return _summary(took_s, time.perf_counter() - begun_s, self._cpu_s() - begun_cpu_s)

    async def recruit_steadily(self, pace: int, workers: int) -> Recruits:
        """So many a second, whether or not those before are answered; each waits from the moment it was due."""
        asked, took_s = request("/recruiter/recruit", {"number_requested": workers}), list[float]()
        begun_s, begun_cpu_s = time.perf_counter(), self._cpu_s()

        async def go(root: Root, due_s: float) -> None:
            await root.ask(asked)
            took_s.append(time.perf_counter() - due_s)

        async with asyncio.TaskGroup() as group:
            for index in range(round(pace * SECONDS)):
                due_s = begun_s + index / pace
                if (left_s := due_s - time.perf_counter()) > 0:
                    await asyncio.sleep(left_s)
                group.create_task(go(self._roots[index % AT_ONCE], due_s))
        return _summary(took_s, time.perf_counter() - begun_s, self._cpu_s() - begun_cpu_s)


def _summary(took_s: list[float], seconds: float, cpu_s: float) -> Recruits:
    cuts = statistics.quantiles(took_s, n=100)
    return Recruits(len(took_s) / seconds, cuts[49] * 1000, cuts[98] * 1000, cpu_s / len(took_s) * 1e6)


@contextmanager
def running_recruiter() -> Generator[tuple[str, psutil.Process]]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "recruiter"
        command = [sys.executable, "-m", "quarterdeck", "recruiter", "--http-port", "0", "--data-dir", str(data)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUARTERDECK_")}
        environment["QUARTERDECK_TOKEN"] = _TOKEN
        with subprocess.Popen([*command, "--log-level", "warning"], env=environment) as process:
            try:
                while (found := announced(data)) is None or found["pid"] != process.pid:
                    assert process.poll() is None, "the recruiter did not start"
                    time.sleep(0.02)
                yield str(found["http"]), psutil.Process(process.pid)
            finally:
                begun_s = time.perf_counter()
                process.terminate()
                process.wait(30)
                print(f"its end                {time.perf_counter() - begun_s:7.2f} s")


async def measure(url: str, server: psutil.Process) -> None:
    scene = Scene(url, server)
    await scene.connect()
    costs_us: list[float] = []
    try:
        before_bytes = scene.memory_bytes
        for number in (FEW, MANY):
            rate = await scene.register(number)
            each_kib = (scene.memory_bytes - before_bytes) / number / 1024
            print(f"\n{number:,} registrations on {min(number, NODES)} nodes held open")
            print(f"registrations          {rate:7,.0f} /s     memory {each_kib:6.1f} KiB each")
            one = await scene.recruit_closely(1, 1)
            print(f"1 root, 1 worker       {one}")
            costs_us.append(one.cpu_us)
            print(f"1 root, 16 workers     {await scene.recruit_closely(1, 16)}")
            print(f"{AT_ONCE} roots, 1 worker each {await scene.recruit_closely(AT_ONCE, 1)}")
            print(f"{PACE:,} a second         {await scene.recruit_steadily(PACE, 1)}")
        print(f"\na recruit with {MANY:,} held costs {costs_us[1] / costs_us[0]:.2f} times one with {FEW}")
        print(f"workers given away     {Worker.reserved:9,}")
        print(f"memory of the recruiter {scene.memory_bytes / 1024**2:6.0f} MiB, {before_bytes / 1024**2:.0f} before")
    finally:
        scene.close()


def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MANY)), hard))
    with running_recruiter() as (url, server):
        uvloop.run(measure(url, server))


if __name__ == "__main__":
    main()
