import httpx
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from scenarios.process import SidecarProcess, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("protocol.any-era-with-any-era")]


async def test_a_client_of_the_old_transport_is_served_with_its_token_alone(
    shared_sidecar: SidecarProcess,
) -> None:
    url = shared_sidecar.urls["agents"].removesuffix("/mcp") + "/sse"
    headers = {"Authorization": f"Bearer {shared_sidecar.token('agent')}"}

    async with Client(sse_client(url, headers=headers), mode="legacy", cache=None) as client:
        echoed = await client.call_tool("worker__echo", {"text": "old"})
    async with httpx.AsyncClient(trust_env=False, timeout=60) as stranger:
        refused = [
            (await stranger.get(url)).status_code,
            (await stranger.post(f"{url}/messages?session_id=0", json={})).status_code,
        ]

    assert text_of(echoed) == "old"
    assert refused == [401, 401]
