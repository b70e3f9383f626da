"""Whose workers do what a tenant asks for."""

import pytest

from quarterdeck.core.tenants import DEFAULT_TENANT, serving_tenant


@pytest.mark.parametrize(
    "tenant, with_workers, serving",
    [
        ("acme", {"acme", DEFAULT_TENANT}, "acme"),
        ("acme", {"other", DEFAULT_TENANT}, DEFAULT_TENANT),
        ("acme", set[str](), DEFAULT_TENANT),
        (DEFAULT_TENANT, {"acme"}, DEFAULT_TENANT),
    ],
)
def test_a_tenant_without_workers_has_those_of_the_default_tenant(
    tenant: str, with_workers: set[str], serving: str
) -> None:
    assert serving_tenant(tenant, with_workers) == serving
