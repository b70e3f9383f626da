"""How much clients may ask of a process's HTTP server: what its settings say, and what its system allows."""

import sys
from typing import Final

from quarterdeck.config.shared import ProcessSettings
from quarterdeck.http.connection import HttpLimits

_SHARE: Final = 0.75
"""Of the files that a process may open, for connections. The others are its own: results, caches, peers."""


def http_limits(settings: ProcessSettings) -> HttpLimits:
    """To be asked when the process has raised its own limits."""
    connections = min(settings.http_connections_max, max(1, int(_SHARE * _files_max())))
    return HttpLimits(
        connections=connections,
        connections_of_address=min(settings.http_connections_per_address_max, connections),
        bodies_bytes=settings.http_bodies_max_bytes,
        body_stall_s=settings.http_body_stall_s,
        body_timeout_s=settings.http_body_timeout_s,
        unread_timeout_s=settings.http_unread_timeout_s,
    )


def _files_max() -> int:
    """How many files the process may open."""
    if sys.platform == "win32":
        return sys.maxsize  # which has no such limit
    import resource  # noqa: PLC0415 - not there on every system

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
