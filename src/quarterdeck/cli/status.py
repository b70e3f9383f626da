"""`quarterdeck status`: the crew as its coordinator sees it, once or continuously."""

import json
import sys
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.crew_table import crew_screen
from quarterdeck.terminal.documents import Look

_EVERY_S: Final = 1.0
_QUERIES: Final = 5
_OTHER_LINES: Final = 17
"""What is on the screen beside the rows of workers, with five queries, and a reason or two of a failure."""


def run(access: Access, *, watch: bool | None, as_json: bool, tenant: str | None = None) -> int:
    """Without a word on `watch`, a terminal is watched on; without a tenant everything is shown."""
    client = Client(access)
    console = Console(highlight=False)
    if watch is None:
        watch = console.is_terminal and not as_json
    if not watch:
        return _once(client, console, tenant, as_json=as_json)
    try:
        if as_json:
            _repeat(client, tenant, _print_json, lambda error, _since: _complain(error))
        else:
            _watch(client, console, tenant)
    except KeyboardInterrupt:
        pass  # how one leaves
    return 0


def _once(client: Client, console: Console, tenant: str | None, *, as_json: bool) -> int:
    look = Look.take(client, tenant)
    if as_json:
        _print_json(look)
    else:
        if not console.is_terminal:
            console.width = max(console.width, 160)  # nobody's window: nothing has to be cut
        console.print(crew_screen(look.crew, look.queries, most_queries=_QUERIES))
    return 0


def _watch(client: Client, console: Console, tenant: str | None) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        last: Look | None = None
        last_at = 0.0

        def show(look: Look) -> None:
            nonlocal last, last_at
            last, last_at = look, time.monotonic()
            live.update(_screen(look, client, console), refresh=True)

        def show_absence(error: QuarterdeckError, since_s: float) -> None:
            parts: list[RenderableType] = [Text(f"{error.what}: {error.why}", style="bold red")]
            if last is None:
                parts.append(Text(f"trying again for {since_s:.0f} s now; {error.next_step}"))
            else:
                parts += [f"trying again; below is how it was {time.monotonic() - last_at:.0f} s ago", ""]
                parts.append(_screen(last, client, console))
            live.update(Group(*parts), refresh=True)

        _repeat(client, tenant, show, show_absence)


def _screen(look: Look, client: Client, console: Console) -> RenderableType:
    most_workers = max(3, console.height - _OTHER_LINES)
    return Group(
        Text(client.url, style="dim"),
        crew_screen(look.crew, look.queries, most_workers=most_workers, most_queries=_QUERIES),
        Text("\nCtrl-C leaves", style="dim"),
    )


def _repeat(
    client: Client,
    tenant: str | None,
    show: Callable[[Look], None],
    show_absence: Callable[[QuarterdeckError, float], None],
) -> None:
    """For ever. A coordinator that is not there is asked again; what asking again does not cure is raised."""
    absent_since: float | None = None
    while True:
        try:
            look = Look.take(client, tenant)
        except QuarterdeckError as error:
            if error.code is not ErrorCode.UNAVAILABLE:
                raise
            absent_since = absent_since or time.monotonic()
            show_absence(error, time.monotonic() - absent_since)
        else:
            absent_since = None
            show(look)
        time.sleep(_EVERY_S)


def _print_json(look: Look) -> None:
    sys.stdout.write(json.dumps(look.document) + "\n")
    sys.stdout.flush()


def _complain(error: QuarterdeckError) -> None:
    sys.stderr.write(f"quarterdeck: {error}\n")
