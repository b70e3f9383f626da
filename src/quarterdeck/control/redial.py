"""Keeps a connection: dial, talk until it ends, wait a little longer after each failure, dial again."""

import asyncio
from collections.abc import Awaitable, Callable

from quarterdeck.control.link import Chance, Dialer, Link, LinkClosedError
from quarterdeck.core.backoff import Backoff


async def keep_connected(
    dialer: Dialer,
    address: str,
    serve: Callable[[Link], Awaitable[bool]],
    backoff: Backoff,
    chance: Chance,
    on_failure: Callable[[str, LinkClosedError], None] | None = None,
) -> None:
    """Runs until it is canceled. `serve` says whether it came to a session; after one the waits are short again.

    `on_failure` hears why an address could not be dialled.
    """
    failures = 0
    while True:
        try:
            link = await dialer.dial(address)
            failures = 0 if await serve(link) else failures + 1
        except LinkClosedError as error:
            failures += 1
            if on_failure is not None:
                on_failure(address, error)
        await asyncio.sleep(backoff.delay_s(max(1, failures), chance.random()))
