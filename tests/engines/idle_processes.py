"""Processes of engines that wait for a question, between tests that share their host.

The host is what takes long to start. Its processes are forked in milliseconds, and end with the test that had them
started: what is still open then was left behind.
"""

from collections.abc import Collection

from quarterdeck.engines.contained import ContainedEngine


def end_idle(engine: ContainedEngine, but: Collection[int] = ()) -> None:
    """As `close` does it, but for the host and these processes."""
    with engine._lock:  # pyright: ignore[reportPrivateUsage]
        idle = engine._idle  # pyright: ignore[reportPrivateUsage]
        engine._idle = [each for each in idle if each[1].pid in but]  # pyright: ignore[reportPrivateUsage]
    for _, process in idle:
        if process.pid not in but:
            process.end()
