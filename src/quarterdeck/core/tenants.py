"""Tenants: the owner of a query, a worker or a sample."""

from collections.abc import Container
from typing import Final

DEFAULT_TENANT: Final = "default"
"""Whoever names none. Its workers do the work of tenants that have none of their own, too."""


def serving_tenant(tenant: str, with_workers: Container[str]) -> str:
    """Whose workers do what a tenant asks for: its own if it has any, else those of the default tenant.

    >>> serving_tenant("acme", {"acme", "default"}), serving_tenant("acme", {"other"})
    ('acme', 'default')
    """
    return tenant if tenant in with_workers else DEFAULT_TENANT
