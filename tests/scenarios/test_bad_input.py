import json
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from scenarios.process import SidecarProcess, text_of

pytestmark = pytest.mark.anyio

MODERN = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
}
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602


async def post(sidecar: SidecarProcess, content: bytes | Any, **headers: str) -> httpx.Response:
    token = {"Authorization": f"Bearer {sidecar.token('agent')}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(
            sidecar.urls["agents"], content=content, headers={**MODERN, **token, **headers}
        )


async def still_serves(sidecar: SidecarProcess) -> bool:
    async with sidecar.agent() as client:
        answer = await client.call_tool("worker__echo", {"text": "still here"})
    # Asked again and again, it says that too: the session is reminded of a loop.
    return text_of(answer).startswith("still here")


@pytest.mark.requirement("input.malformed-json")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method": ', PARSE_ERROR),
        (b"\xff\xfe not text", PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b'"tools/call"', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}', INVALID_REQUEST),
        (b"[" * 50_000, PARSE_ERROR),
    ],
)
async def test_a_malformed_body_gets_a_json_rpc_error_and_the_sidecar_goes_on(
    shared_sidecar: SidecarProcess, body: bytes, code: int
) -> None:
    answer = await post(shared_sidecar, body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert "Traceback" not in answer.text
    assert await still_serves(shared_sidecar)


@pytest.mark.requirement("input.unknown-tool")
async def test_an_unknown_tool_is_named_in_the_error(shared_sidecar: SidecarProcess) -> None:
    async with shared_sidecar.agent() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("worker__nosuch", {})

    assert caught.value.code == INVALID_PARAMS
    assert "worker__nosuch" in caught.value.message
    assert "tools/list" in caught.value.message


@pytest.mark.requirement("input.wrong-types")
async def test_wrong_arguments_are_told_by_path_and_nothing_is_held(
    shared_sidecar: SidecarProcess,
) -> None:
    async with shared_sidecar.agent() as client:
        wrong = await client.call_tool("worker__sleep", {"seconds": "long", "started": "x"})
        missing = await client.call_tool("worker__echo", {})

    assert wrong.is_error
    assert "arguments['seconds']: 'long' is not of type 'number'" in text_of(wrong)
    assert missing.is_error
    assert "'text' is a required property" in text_of(missing)
    async with shared_sidecar.admin() as admin:
        held = await admin.get("calls", params={"name": "worker__sleep"})
    assert held.json()["items"] == []


@pytest.mark.requirement("input.oversize-body-413")
@pytest.mark.parametrize("path", ["/mcp", "/v1/chat/completions"])
@pytest.mark.parametrize("is_declared", [True, False])
async def test_an_oversize_body_is_refused_with_413(
    shared_sidecar: SidecarProcess, path: str, *, is_declared: bool
) -> None:
    large = json.dumps({"jsonrpc": "2.0", "id": 1, "pad": "x" * 200_000}).encode()

    async def chunks() -> Any:
        for start in range(0, len(large), 10_000):
            yield large[start : start + 10_000]

    url = shared_sidecar.urls["agents"].removesuffix("/mcp") + path
    headers = {**MODERN, "Authorization": f"Bearer {shared_sidecar.token('agent')}"}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(url, content=large if is_declared else chunks(), headers=headers)

    assert answer.status_code == 413
    assert await still_serves(shared_sidecar)


@pytest.mark.requirement("input.unknown-principal-401")
@pytest.mark.parametrize("token", ["", "Bearer", "Bearer fbt_wrong", "Basic YTpi"])
async def test_an_unknown_caller_gets_401_on_both_listeners(
    shared_sidecar: SidecarProcess, token: str
) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        as_agent = await client.post(
            shared_sidecar.urls["agents"], json={}, headers={**MODERN, "Authorization": token}
        )
        as_admin = await client.get(
            shared_sidecar.urls["admin"] + "/tenants", headers={"Authorization": token}
        )

    assert (as_agent.status_code, as_admin.status_code) == (401, 401)
    assert as_agent.headers["WWW-Authenticate"].startswith("Bearer")
    assert as_agent.headers["content-type"] == "application/problem+json"


async def test_an_agents_token_never_opens_the_admin_api_nor_the_reverse(
    shared_sidecar: SidecarProcess,
) -> None:
    async with shared_sidecar.admin("agent") as admin:
        as_agent = await admin.get("tenants")
    wrong = await post(
        shared_sidecar, b"{}", Authorization=f"Bearer {shared_sidecar.token('admin')}"
    )

    assert as_agent.status_code == 403
    assert wrong.status_code == 403


@pytest.mark.requirement("input.unknown-budget-404")
async def test_an_unknown_budget_is_404(shared_sidecar: SidecarProcess) -> None:
    async with shared_sidecar.admin() as admin:
        answer = await admin.get("budgets/nosuch")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "nosuch" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:8700"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_foreign_host_or_origin_is_refused_on_both_listeners(
    shared_sidecar: SidecarProcess, headers: dict[str, str], status: int
) -> None:
    answer = await post(shared_sidecar, b"{}", **headers)
    async with shared_sidecar.admin() as admin:
        on_admin = await admin.get("tenants", headers=headers)

    assert (answer.status_code, on_admin.status_code) == (status, status)


async def test_a_session_name_that_is_not_printable_is_refused(
    shared_sidecar: SidecarProcess,
) -> None:
    async with shared_sidecar.agent() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("worker__echo", {"text": "x"}, meta={"flyball/session": "a\nb"})

    assert caught.value.code == INVALID_PARAMS
    assert "flyball/session" in caught.value.message
