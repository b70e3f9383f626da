"""`X-Scope-OrgID`, as every route reads it."""

import asyncio
from http import HTTPStatus
from typing import Any

import pytest
from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.tenants import AskingTenant, BadTenantError, LookingTenant, headers_of, named_tenant, tenant_of
from tests.http.asked import ask


def scope(*names: str) -> dict[str, Any]:
    return {"type": "http", "headers": [(b"x-scope-orgid", name.encode("latin-1")) for name in names]}


def test_a_request_is_the_tenants_that_its_header_names_and_else_the_default_ones() -> None:
    assert tenant_of(scope("acme")) == "acme"
    assert tenant_of(scope(" acme ")) == "acme"
    assert tenant_of(scope()) == "default"
    assert named_tenant(scope()) is None
    assert tenant_of(scope("x" * 150)) == "x" * 150
    ((name, value),) = headers_of("acme").items()
    assert tenant_of({"type": "http", "headers": [(name.lower().encode(), value.encode())]}) == "acme"


@pytest.mark.parametrize(
    "names, why",
    [
        (["x" * 151], "has 151 characters, and at most 150 are allowed"),
        ([""], "is empty"),
        ([" "], "is empty"),
        (["acme", "other"], "more than once"),
        (["acme", ""], "more than once"),
    ],
)
def test_a_header_that_does_not_name_one_tenant_is_refused(names: list[str], why: str) -> None:
    for read in (tenant_of, named_tenant):
        with pytest.raises(BadTenantError, match=why) as raised:
            read(scope(*names))
        assert raised.value.row.http_status == HTTPStatus.BAD_REQUEST


def test_a_route_of_the_framework_reads_it_in_the_same_way_and_describes_it() -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.get("/asking")
    async def asking(tenant: AskingTenant) -> str:
        return tenant

    @app.get("/looking")
    async def looking(tenant: LookingTenant) -> str | None:
        return tenant

    _ = asking, looking

    async def answers() -> None:
        assert (await ask(app, "/asking")).json == "default"
        assert (await ask(app, "/looking")).json is None
        for path in ("/asking", "/looking"):
            assert (await ask(app, path, x_scope_orgid=" acme ")).json == "acme"
            refused = await ask(app, path, x_scope_orgid="")
            assert (refused.status, refused.json["error"]["why"]) == (400, "the tenant's name is empty")
            (described,) = app.openapi()["paths"][path]["get"]["parameters"]
            assert (described["name"], described["in"], described["required"]) == ("X-Scope-OrgID", "header", False)

    asyncio.run(answers())
