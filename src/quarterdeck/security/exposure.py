"""Whether a process may listen on an address. Off loopback that needs TLS files and a token, or an explicit permission.

It decides from its arguments and opens nothing itself.
"""

from enum import StrEnum
from ipaddress import IPv6Address, ip_address

from quarterdeck.core.errors import ErrorCode, QuarterdeckError


class Exposure(StrEnum):
    """Who can reach what listens on an address."""

    LOOPBACK = "loopback"
    """Programs on this machine."""
    PROTECTED = "protected"
    """Whoever has the token, over TLS."""
    INSECURE = "insecure"
    """Anybody who can reach the address, because that was asked for. Worth a warning."""


def check_exposure(what: str, host: str, *, has_tls: bool, has_token: bool, insecure: bool) -> Exposure:
    """Say who can reach `what`, were it to listen on `host`; raise when that may not be.

    >>> check_exposure("the HTTP server", "127.0.0.1", has_tls=False, has_token=False, insecure=False)
    <Exposure.LOOPBACK: 'loopback'>
    """
    if is_loopback(host):
        return Exposure.LOOPBACK
    if has_tls and has_token:
        return Exposure.PROTECTED
    if insecure:
        return Exposure.INSECURE
    missing = " and ".join(name for name, there in (("no TLS files", has_tls), ("no token", has_token)) if not there)
    raise QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"{what} may not listen on {host or 'all addresses'}",
        f"other machines could reach it, and it has {missing}",
        "listen on 127.0.0.1, or give it TLS files (tls_certificate, tls_key, tls_authority) and a token (token_file), "
        "or allow it with insecure if the network lets nobody else in",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    A name counts for `localhost` alone: any other is whatever a name server says today.
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
