"""Processes of engines that wait for a question, between tests that share their host.

The host is what takes long to start. Its processes are forked in milliseconds, and end with the test that had them
started: what is still open then was left behind.
"""

from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TypeVar

from quarterdeck.engines.contained import ContainedEngine

EngineT = TypeVar("EngineT", bound=ContainedEngine)


@contextmanager
def one_host_of(engine: EngineT) -> Generator[EngineT]:
    """For all tests of a module, because a host takes half a second to start: it starts before the first of them, so
    that what a test leaves behind of it shows."""
    engine.warm_up()
    end_idle(engine)
    yield engine
    engine.close()


@contextmanager
def only_its_host(engine: EngineT) -> Generator[EngineT]:
    """For one test: no process but the host, before it and after it, and the same host."""
    assert engine.processes == []
    before = engine.host_pid
    yield engine
    end_idle(engine)
    assert engine.host_pid == before


def end_idle(engine: ContainedEngine, but: Collection[int] = ()) -> None:
    """As `close` does it, but for the host and these processes."""
    with engine._lock:  # pyright: ignore[reportPrivateUsage]
        idle = engine._idle  # pyright: ignore[reportPrivateUsage]
        engine._idle = [each for each in idle if each[1].pid in but]  # pyright: ignore[reportPrivateUsage]
    for _, process in idle:
        if process.pid not in but:
            process.end()
