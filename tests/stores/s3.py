"""An S3 to test against: moto's server, in a process of its own."""

import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import obstore

from quarterdeck.stores.objects import S3Options

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
server.stop()
"""
"""It ends with its standard input, so it outlives no test process, however that ends."""


@dataclass(frozen=True, slots=True)
class S3Server:
    options: S3Options

    def make_bucket(self) -> "Bucket":
        name = f"b{uuid.uuid4().hex}"
        _put(f"{self.options.endpoint}/{name}", b"")
        return Bucket(name, self.options)


@dataclass(frozen=True, slots=True)
class Bucket:
    name: str
    options: S3Options

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.options.open_bucket(self.name), key, data)

    def put_raw(self, key: str, data: bytes) -> None:
        """With a key that the client would not write."""
        _put(f"{self.options.endpoint}/{self.name}/{key}", data)

    def delete(self, key: str) -> None:
        obstore.delete(self.options.open_bucket(self.name), key)


def _put(url: str, data: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=data)) as answer:
        answer.read()


@contextmanager
def moto() -> Generator[S3Server]:
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        host, port = process.stdout.readline().split()
        yield S3Server(
            S3Options(
                endpoint=f"http://{host}:{port}",
                region="us-east-1",
                access_key_id="test",
                secret_access_key="test",
                allow_http=True,
                max_retries=0,
            )
        )
        process.stdin.close()
