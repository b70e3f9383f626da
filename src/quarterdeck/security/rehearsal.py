"""A TLS handshake with oneself, in memory: what would fail with the first peer fails at the start instead.

It uses the library of the real handshakes, so it judges a certificate in the same way.
"""

import ssl
from dataclasses import dataclass
from typing import Final

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name."""

_MAX_TURNS: Final = 10
"""TLS 1.2 takes two turns of each side, TLS 1.3 one and a half."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when a certificate is valid, in seconds since 1970."""

    not_before_s: float
    not_after_s: float


def rehearse(server: ssl.SSLContext, client: ssl.SSLContext) -> Validity:
    """Let both sides verify each other; say how long the server's certificate is valid, or raise `ssl.SSLError`."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server)
    waiting = [client_end, server_end]
    for _ in range(_MAX_TURNS):
        waiting = [end for end in waiting if not _has_finished(end)]
        if not waiting:
            return _validity_of(client_end)
    raise ssl.SSLError("the two sides of the rehearsed handshake wait for each other")


def without_time(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context blind for dates: to read them off a certificate that is not valid now."""
    context.verify_flags |= _NO_CHECK_TIME
    return context


def _has_finished(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _validity_of(end: ssl.SSLObject) -> Validity:
    certificate = end.getpeercert()
    assert certificate is not None, "a verified handshake has a certificate"
    return Validity(
        ssl.cert_time_to_seconds(str(certificate["notBefore"])),
        ssl.cert_time_to_seconds(str(certificate["notAfter"])),
    )
