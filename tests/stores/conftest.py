"""An S3 to test against: moto's server, in a process of its own, for the whole session."""

import time
from collections.abc import Iterator

import pytest

from tests.leaks import Snapshot
from tests.stores.s3 import Bucket, S3Server, moto

_CLOSING_S = 5.0


@pytest.fixture(autouse=True)
def connections_are_closed_by_the_client() -> Iterator[None]:
    """Its own threads do that, a moment after a request has ended or was given up; so the search for leaks waits."""
    before = Snapshot.take().files
    yield
    deadline_s = time.monotonic() + _CLOSING_S
    while any(target.startswith("socket:") for _, target in Snapshot.take().files - before):
        if time.monotonic() > deadline_s:
            return  # then it is a leak, and is found
        time.sleep(0.001)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with moto() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    return s3_server.make_bucket()
