"""The three servers that `bench/metrics.py` asks: how each is started over the same samples, ended, and how much memory
its processes hold."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench import metrics_data as data
from bench.metrics_client import Answer, ask_once
from tests.differential.peer import PrometheusClient

_START_LIMIT_S: Final = 120.0
_END_LIMIT_S: Final = 60.0
WORKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Memory:
    """Of all processes of a server together."""

    resident_bytes: int
    peak_bytes: int


class Server:
    """A program that can be started again over the same samples."""

    def __init__(
        self,
        name: str,
        command: Callable[[int], Sequence[str | Path]],
        log: Path,
        ready_path: str,
        is_ready: Callable[[Answer], bool] = lambda answer: answer.status == 200,
    ) -> None:
        """`command` gets the port to listen on."""
        self.name: Final = name
        self.port = 0
        self._command: Final = command
        self._ready_path: Final = ready_path
        self._says_ready: Final = is_ready
        self._log: Final = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begins; `wait_ready` waits until it answers."""
        self.port = _free_port()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command(self.port), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def wait_ready(self) -> None:
        deadline_s = time.monotonic() + _START_LIMIT_S
        while not self._is_ready():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline_s:
                told = self._log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{self.name} was not ready within {_START_LIMIT_S:.0f} s:\n{told}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        try:
            return self._says_ready(ask_once(self.port, self._ready_path))
        except OSError:
            return False

    def end(self) -> None:
        """In order, so that what it has in memory is written down."""
        if self._process is None:
            return
        children = psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _, alive = psutil.wait_procs(children, 10)
        for child in alive:
            child.kill()
        self._process = None

    def memory(self) -> Memory:
        """What its processes hold now, and the sum of the most that each has held."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        resident = peak = 0
        for process in (parent, *parent.children(recursive=True)):
            resident += process.memory_info().rss
            status = Path(f"/proc/{process.pid}/status").read_text()
            [peak_kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
            peak += int(peak_kib) * 1024
        return Memory(resident, peak)


@contextmanager
def running(servers: Sequence[Server]) -> Generator[None]:
    """All of them, started side by side."""
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait_ready()
        yield
    finally:
        for server in servers:
            server.end()


def _free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# Ours


@dataclass(frozen=True, slots=True)
class Imported:
    """What `quarterdeck import` did."""

    took_s: float
    told: str


def quarterdeck(count: int) -> tuple[Server, Imported]:
    """Imports the samples anew, so that what is asked is what this code writes."""
    source, folder = data.parquet_file(count), data.CACHE / f"metrics-{count}" / "quarterdeck"
    shutil.rmtree(folder, ignore_errors=True)
    program = (sys.executable, "-m", "quarterdeck")
    columns = ("--metric", "m", "--label-column", "job", "--label-column", "instance")
    began_s = time.perf_counter()
    done = subprocess.run(
        [*program, "import", source, *columns, "--data-dir", folder], check=True, capture_output=True, text=True
    )
    took_s = time.perf_counter() - began_s
    told = done.stdout.splitlines()[0].partition(": ")[2]

    def command(port: int) -> list[str | Path]:
        ports = ("--http-port", str(port), "--control-port", "0")
        return [*program, "up", "--workers", str(WORKERS), "--data-dir", folder, *ports]

    def are_all_there(answer: Answer) -> bool:
        return answer.status == 200 and json.loads(answer.body)["workers_accepting"] == WORKERS

    server = Server("Quarterdeck", command, _log(count, "quarterdeck"), "/monitor/scaling", are_all_there)
    return server, Imported(took_s, told)


# The peers


def prometheus(program: Path, count: int) -> Server:
    """Its samples are in one block, as a snapshot writes them."""

    def command(folder: Path, port: int, *more: str) -> list[str | Path]:
        return [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            *more,
        ]

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / "prometheus.yml").write_text("{}\n")
        head = ("--storage.tsdb.min-block-duration=1d", "--storage.tsdb.max-block-duration=1d")  # keeps everything
        more = (*head, "--web.enable-remote-write-receiver", "--web.enable-admin-api")
        filling = Server("Prometheus", lambda port: command(folder, port, *more), _log(count, "filling"), "/-/ready")
        with running([filling]):
            _write(filling.port, count)
            with closing(PrometheusClient(filling.port)) as client:
                client.ask("admin/tsdb/snapshot", {})
        [snapshot] = (folder / "data" / "snapshots").iterdir()
        snapshot.rename(folder / "snapshot")
        shutil.rmtree(folder / "data")
        (folder / "snapshot").rename(folder / "data")

    folder = data.kept(count, "prometheus", fill)
    return Server("Prometheus", lambda port: command(folder, port), _log(count, "prometheus"), "/-/ready")


def victoria_metrics(program: Path, count: int) -> Server:
    """Without the cache of its answers."""

    def command(folder: Path, port: int) -> list[str | Path]:
        return [
            program,
            f"-storageDataPath={folder}",
            "-retentionPeriod=100y",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-search.disableCache",
        ]

    def fill(folder: Path) -> None:
        filling = Server("VictoriaMetrics", lambda port: command(folder, port), _log(count, "filling"), "/health")
        with running([filling]):
            _write(filling.port, count)

    folder = data.kept(count, "victoria-metrics", fill)
    return Server("VictoriaMetrics", lambda port: command(folder, port), _log(count, "victoria-metrics"), "/health")


def _write(port: int, count: int) -> None:
    with closing(PrometheusClient(port)) as client:
        client.write(data.series_of(count))


def _log(count: int, name: str) -> Path:
    return data.CACHE / f"metrics-{count}" / f"{name}.log"
