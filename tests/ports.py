"""A port where nobody answers, and nobody else will: a port that was merely closed may be another test's a moment
later."""

import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def dead_port() -> Generator[int]:
    """On loopback. Who connects to it is refused, for as long as this lasts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
