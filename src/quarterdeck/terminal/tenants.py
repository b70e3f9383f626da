"""Whose things a command asks for: the option `--tenant`, and the header that says it."""

from collections.abc import Mapping
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_HEADER: Final = "x-scope-orgid"


def tenant_headers(tenant: str | None) -> Mapping[str, str]:
    """Raises for what cannot stand in a header.

    >>> tenant_headers("acme"), tenant_headers(None)
    ({'x-scope-orgid': 'acme'}, {})
    """
    if tenant is None:
        return {}
    if not tenant or not tenant.isascii() or not tenant.isprintable():
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "--tenant was not understood",
            f"{tenant!r} cannot stand in a header",
            "take letters and digits",
        )
    return {_HEADER: tenant}
