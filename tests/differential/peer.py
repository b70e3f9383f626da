"""A Prometheus of our own: started on loopback with an empty folder, filled by remote write, asked over HTTP."""

import http.client
import json
import re
import subprocess
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from quarterdeck.metrics.promql.memory import Series
from tests.differential.remote_write import write_requests

_START_LIMIT_S = 30.0
_REQUEST_LIMIT_S = 60.0
_ADDRESS = re.compile(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')
_READY = "Server is ready to receive web requests"
_CHUNK_MS = 600_000  # a head takes nothing older than an hour before its newest sample


class PeerFailedError(Exception):
    """Prometheus did not start, or answered what it never should."""


class PrometheusClient:
    """One connection to a running Prometheus, or to a coordinator, which answers alike; close it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_REQUEST_LIMIT_S)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, endpoint: str, parameters: Mapping[str, str], tenant: str | None = None) -> dict[str, Any]:
        """The JSON of `/api/v1/<endpoint>`, be it an answer or an error. Prometheus itself knows no tenants."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if tenant is not None:
            headers["X-Scope-OrgID"] = tenant
        return json.loads(self._post(f"/api/v1/{endpoint}", urlencode(parameters).encode(), headers))

    def write(self, dataset: Iterable[Series]) -> None:
        """Send all samples, all series advancing together in time."""
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        for body in write_requests(dataset, _CHUNK_MS):
            self._post("/api/v1/write", body, headers, must_succeed=True)

    def _post(self, path: str, body: bytes, headers: Mapping[str, str], must_succeed: bool = False) -> bytes:
        self._connection.request("POST", path, body, dict(headers))
        response = self._connection.getresponse()
        content = response.read()
        if must_succeed and response.status >= 300:
            raise PeerFailedError(f"{path} answered {response.status}: {content.decode(errors='replace')}")
        return content


@contextmanager
def running_prometheus(program: Path) -> Generator[int]:
    """A Prometheus with nothing in it; yields its port. The folder goes when the process has ended."""
    with TemporaryDirectory(prefix="quarterdeck-prometheus-") as name:
        folder = Path(name)
        (folder / "prometheus.yml").write_text("{}\n")
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    program,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    "--storage.tsdb.retention.time=100y",
                    "--storage.tsdb.min-block-duration=1d",  # the head keeps everything
                    "--storage.tsdb.max-block-duration=1d",
                    "--web.listen-address=127.0.0.1:0",
                    "--web.enable-remote-write-receiver",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield _port_once_ready(process, log)
        finally:
            process.kill()  # there is nothing worth a flush
            process.wait()


def _port_once_ready(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        text = log.read_text(errors="replace")
        address = _ADDRESS.search(text)
        if address is not None and _READY in text:
            return int(address[1])
        time.sleep(0.01)
    raise PeerFailedError(f"Prometheus was not ready within {_START_LIMIT_S:.0f} s:\n{log.read_text(errors='replace')}")
