import json
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from runtime.admin import create_admin_app
from tests.runtime.admin.admin_world import World

pytestmark = pytest.mark.anyio

PREFIX = "/admin/v1"
ROUTES = {
    "/healthz": {"get"},
    "/readyz": {"get"},
    "/metrics": {"get"},
    f"{PREFIX}/router": {"get"},
    f"{PREFIX}/router/models": {"get", "post"},
    f"{PREFIX}/router/models/{{version}}": {"get"},
    f"{PREFIX}/router/models/{{version}}/promote": {"post"},
    f"{PREFIX}/router/rollback": {"post"},
    f"{PREFIX}/router/decisions": {"get"},
    f"{PREFIX}/router/evaluation": {"get"},
    f"{PREFIX}/router/advice": {"get"},
    f"{PREFIX}/router/calibration": {"get"},
    f"{PREFIX}/router/outcomes": {"post"},
    f"{PREFIX}/memory/namespaces": {"get", "post"},
    f"{PREFIX}/memory/namespaces/{{namespace}}/grants": {"post"},
    f"{PREFIX}/memory/namespaces/{{namespace}}/limit": {"post"},
    f"{PREFIX}/memory/tiers": {"get"},
    f"{PREFIX}/memory/tiers/promote": {"post"},
    f"{PREFIX}/memory/tiers/rollback": {"post"},
    f"{PREFIX}/memory/stats": {"get"},
    f"{PREFIX}/memory/playbooks": {"get"},
    f"{PREFIX}/memory/playbooks/{{playbook}}": {"get"},
    f"{PREFIX}/memory/playbooks/{{playbook}}/history": {"get"},
    f"{PREFIX}/memory/playbooks/{{playbook}}/rollback": {"post"},
    f"{PREFIX}/memory/playbooks/{{playbook}}/promote": {"post"},
    f"{PREFIX}/memory/usage": {"get"},
    f"{PREFIX}/memory/experiences": {"get", "post"},
    f"{PREFIX}/memory/experiences/{{index}}": {"get"},
    f"{PREFIX}/memory/experiences/{{index}}/content": {"get"},
    f"{PREFIX}/memory/experiences/{{index}}/relations": {"get"},
    f"{PREFIX}/memory/experiences/{{index}}/promote": {"post"},
    f"{PREFIX}/memory/experiences/{{index}}/withdraw": {"post"},
    f"{PREFIX}/memory/search": {"post"},
    f"{PREFIX}/memory/revoke": {"post"},
    f"{PREFIX}/memory/erase": {"post"},
    f"{PREFIX}/memory/receipts": {"post"},
    f"{PREFIX}/memory/export": {"get"},
    f"{PREFIX}/memory/import": {"post"},
    f"{PREFIX}/memory/check": {"get"},
    f"{PREFIX}/memory/rebuild": {"post"},
    f"{PREFIX}/tenants": {"get", "post"},
    f"{PREFIX}/tenants/{{tenant_id}}": {"get", "put"},
    f"{PREFIX}/tenants/{{tenant_id}}/quota": {"get", "put"},
    f"{PREFIX}/budgets": {"get", "post"},
    f"{PREFIX}/budgets/{{budget_id}}": {"get", "put", "delete"},
    f"{PREFIX}/policies": {"get"},
    f"{PREFIX}/overview": {"get"},
    f"{PREFIX}/principals": {"get", "post"},
    f"{PREFIX}/principals/{{principal_id}}": {"get", "put"},
    f"{PREFIX}/principals/{{principal_id}}/tokens": {"get", "post"},
    f"{PREFIX}/principals/{{principal_id}}/tokens/{{token_id}}": {"delete"},
    f"{PREFIX}/principals/{{principal_id}}/tokens/{{token_id}}/rotate": {"post"},
    f"{PREFIX}/sessions": {"get"},
    f"{PREFIX}/sessions/{{session_id}}": {"get"},
    f"{PREFIX}/sessions/{{session_id}}/kill": {"post"},
    f"{PREFIX}/sessions/{{session_id}}/freeze": {"post"},
    f"{PREFIX}/sessions/{{session_id}}/resume": {"post"},
    f"{PREFIX}/sessions/{{session_id}}/extensions": {"post"},
    f"{PREFIX}/sessions/{{session_id}}/outcome": {"post"},
    f"{PREFIX}/metrics/productivity": {"get"},
    f"{PREFIX}/notices": {"get"},
    f"{PREFIX}/approvals": {"get"},
    f"{PREFIX}/approvals/{{approval_id}}": {"get"},
    f"{PREFIX}/approvals/{{approval_id}}/approve": {"post"},
    f"{PREFIX}/approvals/{{approval_id}}/reject": {"post"},
    f"{PREFIX}/calls": {"get"},
    f"{PREFIX}/calls/{{call_id}}": {"get"},
    f"{PREFIX}/calls/{{call_id}}/curve": {"get"},
    f"{PREFIX}/calls/{{call_id}}/archive": {"get"},
    f"{PREFIX}/budgets/preview": {"post"},
    f"{PREFIX}/budgets/preview/whole": {"post"},
    f"{PREFIX}/sessions/{{session_id}}/timeline": {"get"},
    f"{PREFIX}/sessions/{{session_id}}/running": {"get"},
    f"{PREFIX}/balances": {"get"},
    f"{PREFIX}/prices": {"get", "put", "delete"},
    f"{PREFIX}/prices/{{version}}": {"get"},
    f"{PREFIX}/providers": {"get"},
    f"{PREFIX}/upstreams": {"get"},
    f"{PREFIX}/upstreams/{{name}}": {"get"},
    f"{PREFIX}/upstreams/{{name}}/approve": {"post"},
    f"{PREFIX}/upstreams/{{name}}/manifest": {"get"},
    f"{PREFIX}/audit": {"get"},
    f"{PREFIX}/reload": {"post"},
}


async def described(world: World) -> dict[str, Any]:
    response = await world.get("/openapi.json")
    assert response.status_code == 200
    document: dict[str, Any] = response.json()
    return document


async def test_the_description_lists_every_route_and_no_other(world: World) -> None:
    paths = (await described(world))["paths"]

    assert {path: set(methods) for path, methods in paths.items()} == ROUTES
    served = {
        route.path.replace(":path}", "}")
        for route in iter_route_contexts(create_admin_app(world.parts).routes)
        if isinstance(route.original_route, APIRoute)
    }
    assert served == set(ROUTES)


async def test_everything_that_is_referred_to_is_described(world: World) -> None:
    document = await described(world)

    shapes = document["components"]["schemas"]
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert referred <= set(shapes)
    assert {"type", "title", "status", "detail", "errors"} <= set(shapes["Problem"]["properties"])


async def test_every_route_has_a_summary_an_answer_and_its_errors(world: World) -> None:
    for path, operations in (await described(world))["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            errors = {status for status in operation["responses"] if status >= "400"}
            if path.startswith(PREFIX):
                assert errors >= {"401", "403", "422", "503"}, (method, path)
                assert operation["security"] == [{"HTTPBearer": []}]
            if "{" in path:
                assert "404" in errors, (method, path)
            if "requestBody" in operation:
                assert errors >= {"400", "413"}, (method, path)
            if method == "put":
                assert "412" in errors, path


async def test_every_error_is_described_as_a_problem_document(world: World) -> None:
    document = await described(world)

    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    assert list(response["content"]) == ["application/problem+json"], path
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_no_two_shapes_have_one_name(world: World) -> None:
    schemas = (await described(world))["components"]["schemas"]

    # Of two with one name, each is called by the path of its module.
    assert [name for name in schemas if name.startswith("runtime__")] == []


async def test_the_description_is_the_same_each_time(world: World) -> None:
    assert await described(world) == await described(world)


async def test_no_page_loads_scripts_from_elsewhere(world: World) -> None:
    answers = [await world.client.get(path) for path in ("/docs", "/redoc")]

    assert [answer.status_code for answer in answers] == [401, 401]


async def test_the_description_says_how_far_an_administrator_reaches(world: World) -> None:
    told = (await described(world))["info"]["description"]

    assert "administers all tenants" in told
    assert "clock that jumps ahead" in told


async def test_the_bounds_of_a_window_are_described(world: World) -> None:
    schemas = (await described(world))["components"]["schemas"]

    every_s = schemas["Every"]["properties"]["every_s"]
    assert (every_s["minimum"], every_s["maximum"]) == (1, 10 * 366 * 24 * 3600)
