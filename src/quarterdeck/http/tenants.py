"""Whose request it is: the header `X-Scope-OrgID`, which every route reads and refuses in the same way.

Without the header a request belongs to the default tenant. A header that names nobody, or two tenants, is refused: a
mistake of a proxy must not become somebody else's data. A tenant is a label, not a lock: whoever is let in may name
any.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Header, Request
from starlette.types import Scope

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT

TENANT_HEADER: Final = "X-Scope-OrgID"
_RAW: Final = TENANT_HEADER.lower().encode()
MOST_TENANT_CHARACTERS: Final = 150
"""Of a tenant's name, as in Mimir."""


class BadTenantError(QuarterdeckError):
    """The header does not name one tenant."""

    def __init__(self, why: str) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT, "the request was not understood", why, f"name another one in {TENANT_HEADER}"
        )
        self.args = (why,)  # from which copy and pickle make it anew


def tenant_of(scope: Scope) -> str:
    """Who asks. Raises `BadTenantError`."""
    return named_tenant(scope) or DEFAULT_TENANT


def named_tenant(scope: Scope) -> str | None:
    """Who asks; None without a header. Raises `BadTenantError`.

    >>> named_tenant({"headers": [(b"x-scope-orgid", b" acme ")]}), named_tenant({"headers": []})
    ('acme', None)
    """
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    names = {value.decode("latin-1").strip() for name, value in headers if name == _RAW}
    if not names:
        return None
    name, *others = sorted(names)
    if others:
        raise BadTenantError(f"it has {TENANT_HEADER} more than once, for several tenants")
    if not name:
        raise BadTenantError("the tenant's name is empty")
    if len(name) > MOST_TENANT_CHARACTERS:
        why = f"the tenant's name has {len(name)} characters, and at most {MOST_TENANT_CHARACTERS} are allowed"
        raise BadTenantError(why)
    return name


def headers_of(tenant: str) -> Mapping[str, str]:
    """To ask as this tenant."""
    return {TENANT_HEADER: tenant}


# Parameters of routes. FastAPI only describes the header: what it says is read as above.

_ASKS: Final = Header(alias=TENANT_HEADER, description=f"Who asks; `{DEFAULT_TENANT}` without it.")
_LOOKS: Final = Header(
    alias=TENANT_HEADER, description="Show only what belongs to this tenant; without it, everything."
)


async def _asking(request: Request, described: Annotated[str | None, _ASKS] = None) -> str:
    del described
    return tenant_of(request.scope)


async def _looking(request: Request, described: Annotated[str | None, _LOOKS] = None) -> str | None:
    del described
    return named_tenant(request.scope)


AskingTenant: TypeAlias = Annotated[str, Depends(_asking)]
"""Who asks."""
LookingTenant: TypeAlias = Annotated[str | None, Depends(_looking)]
"""Whose things to show. None means everybody's, which everybody who is let in may see."""
