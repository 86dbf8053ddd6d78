"""A running sidecar leaves an upstream that keeps dying alone, at nobody's cost, and says so."""

import json
import sys
from typing import Any

import anyio
import pytest
from scenarios.process import WORKER, SidecarProcess, denial_of, text_of

pytestmark = pytest.mark.anyio

FRAIL = f"""
[[upstream]]
name = "frail"
command = [{json.dumps(sys.executable)}, {json.dumps(str(WORKER))}]
breaker = {{ calls_min = 2, open_s = 600, open_s_max = 600 }}

[[budget]]
id = "all"
scope = "tenant"
limits = {{ tool_calls = 100 }}
"""


@pytest.mark.requirement("upstream.breaker-denies-at-once")
@pytest.mark.parametrize("sidecar", [FRAIL], indirect=True)
async def test_an_upstream_that_keeps_dying_is_left_alone_and_its_neighbour_is_not(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent() as client:
        died = [await client.call_tool("frail__die", {}) for _ in range(2)]
        denied = await client.call_tool("frail__echo", {"text": "too late"})
        neighbour = await client.call_tool("worker__echo", {"text": "fine"})
        upstreams = await up_again(sidecar, "frail")
        listed = await client.list_tools()
    async with sidecar.admin() as admin:
        records = (await admin.get("calls", params={"status": "denied"})).json()["items"]
        metrics = (await admin.get(sidecar.urls["admin"].replace("/admin/v1", "/metrics"))).text

    assert all("died before it answered" in text_of(one) for one in died)
    denial = denial_of(denied) or {}
    assert denial["reason"] == "upstream_unavailable"
    assert 0 < denial["retry_after_ms"] <= 600_000
    assert text_of(neighbour) == "fine"
    assert (listed.meta or {})["flyball/upstreams"]["frail"]["state"] == "failing"
    assert upstreams["frail"]["breaker"]["phase"] == "open"
    assert upstreams["worker"]["breaker"]["phase"] == "closed"
    assert [record["denial"] for record in records] == ["upstream_unavailable"]
    assert 'flyball_breaker{backend="frail"' in metrics
    assert {(item["used"], item["reserved"]) for item in await sidecar.balances()} == {(3, 0)}


async def up_again(sidecar: SidecarProcess, name: str) -> dict[str, Any]:
    """Return how the upstreams are once one is started again; it shares no event with us."""
    async with sidecar.admin() as admin:
        with anyio.fail_after(60):
            while True:
                items = (await admin.get("upstreams")).json()["items"]
                found = {one["name"]: one for one in items}
                if found[name]["state"] == "ready":
                    return found
                await anyio.sleep(0.05)
