"""Tools found and called by name over the wire, and lists that are cut."""

from typing import Any

import pytest
from scenarios.process import SidecarProcess, text_of

pytestmark = pytest.mark.anyio

CUT = """
[tools]
list_tokens_max = 600
keep = []
"""


async def calls_of(sidecar: SidecarProcess, name: str) -> list[dict[str, Any]]:
    async with sidecar.admin() as admin:
        items: list[dict[str, Any]] = (await admin.get("calls", params={"name": name})).json()[
            "items"
        ]
    return items


@pytest.mark.requirement("tools.call-is-governed-alike")
async def test_a_tool_is_found_described_and_called_by_name(sidecar: SidecarProcess) -> None:
    async with sidecar.agent() as client:
        found = await client.call_tool("tools_search", {"query": "echo a text"})
        name = found.structured_content["tools"][0]["name"]
        described = await client.call_tool("tools_describe", {"names": [name]})
        answer = await client.call_tool(
            "tools_call", {"name": name, "arguments": {"text": "by name"}}
        )

    assert name == "worker__echo"
    assert described.structured_content["tools"][0]["inputSchema"]["required"] == ["text"]
    assert text_of(answer) == "by name"
    assert len(await calls_of(sidecar, "worker__echo")) == 1
    assert len(await calls_of(sidecar, "tools_search")) == 1
    assert await calls_of(sidecar, "tools_call") == []


@pytest.mark.requirement("tools.list-is-cut-by-relevance")
@pytest.mark.parametrize("sidecar", [CUT], indirect=True)
async def test_a_cut_list_follows_what_was_used_over_a_restart(sidecar: SidecarProcess) -> None:
    async with sidecar.agent() as client:
        whole = {tool.name for tool in (await client.list_tools()).tools}
        for _ in range(2):
            await client.call_tool("worker__echo", {"text": "again"})
    sidecar.stop()
    sidecar.start()

    async with sidecar.agent("a new one") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}

    assert {"tools_search", "tools_describe", "tools_call"} <= whole
    assert "worker__echo" not in whole
    assert "worker__echo" in listed
