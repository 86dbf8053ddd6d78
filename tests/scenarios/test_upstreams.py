import json
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from scenarios.process import SidecarProcess, appears, denial_of, text_of

pytestmark = pytest.mark.anyio

BUDGET = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 100, cost_microusd = 1000, wall_ms = 10000000 }

[default]
cost_microusd = 10
"""
SOON_GIVEN_UP = BUDGET + "limits = { wall_ms = 2000 }\n"
BROKEN = f"""
[[upstream]]
name = "broken"
command = [{json.dumps(sys.executable)}, "-c", "import sys; sys.exit('no licence found')"]

[[upstream]]
name = "missing"
command = ["/nowhere/to/be/found"]

[[upstream]]
name = "offline"
url = "http://127.0.0.1:9/mcp"
"""


async def held(sidecar: SidecarProcess) -> dict[str, int]:
    return {item["unit"]: item["reserved"] for item in await sidecar.balances()}


async def upstreams(admin: httpx.AsyncClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await admin.get("upstreams")).json()["items"]
    return items


async def used(sidecar: SidecarProcess, unit: str) -> int:
    return next(item["used"] for item in await sidecar.balances() if item["unit"] == unit)


@pytest.mark.requirement("input.upstream-cannot-start")
@pytest.mark.parametrize("sidecar", [BROKEN], indirect=True)
async def test_upstreams_that_cannot_start_are_reported_and_harm_nobody(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent() as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("worker__echo", {"text": "fine"})
    # One that cannot start is given the time of its first attempt, however long that is.
    async with sidecar.admin() as admin:
        with anyio.fail_after(60):
            listed = await upstreams(admin)
            while any(item["state"] == "starting" for item in listed):
                await anyio.sleep(0.05)
                listed = await upstreams(admin)

    assert text_of(answer) == "fine"
    assert not any(name.startswith(("broken", "missing", "offline")) for name in tools)
    problems = {item["name"]: item["problem"] for item in listed if item["state"] == "down"}
    assert set(problems) == {"broken", "missing", "offline"}
    assert "no licence found" in problems["broken"]


@pytest.mark.requirement("input.upstream-dies")
@pytest.mark.parametrize("sidecar", [BUDGET], indirect=True)
async def test_an_upstream_that_dies_mid_call_is_settled_and_comes_back(
    sidecar: SidecarProcess,
) -> None:
    async with sidecar.agent() as client:
        died = await client.call_tool("worker__die", {})
        again = await client.call_tool("worker__echo", {"text": "back"})

    assert died.is_error
    assert "died before it answered" in text_of(died)
    assert text_of(again) == "back"
    assert set((await held(sidecar)).values()) == {0}
    assert await used(sidecar, "tool_calls") == 2
    assert await used(sidecar, "cost_microusd") == 20
    async with sidecar.admin() as admin:
        told = (await admin.get("upstreams/worker")).json()
    assert told["pid"] in told["pids"]
    assert told["restarts"] == 1
    assert (told["last_end"]["cause"], told["last_end"]["exit_code"]) == ("exited", 3)


@pytest.mark.requirement("input.upstream-never-answers")
@pytest.mark.parametrize("sidecar", [SOON_GIVEN_UP], indirect=True)
async def test_an_upstream_that_never_answers_is_given_up_and_settled(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    async with sidecar.agent() as client:
        with anyio.fail_after(60):
            late = await client.call_tool(
                "worker__sleep", {"seconds": 30, "started": str(tmp_path / "started")}
            )

    assert late.is_error
    assert "did not answer within 2000 ms" in text_of(late)
    assert set((await held(sidecar)).values()) == {0}
    assert await used(sidecar, "wall_ms") >= 2000


async def test_both_protocol_eras_reach_the_same_tools(sidecar: SidecarProcess) -> None:
    names = []
    for mode in ("2026-07-28", "legacy"):
        async with sidecar.agent(mode=mode) as client:
            names.append([tool.name for tool in (await client.list_tools()).tools])
            answer = await client.call_tool("worker__echo", {"text": mode})
            assert text_of(answer) == mode

    assert names[0] == names[1]
    assert {"worker__echo", "memory_read", "governor_status"} <= set(names[0])


async def test_local_commands_are_off_until_a_rule_allows_them(sidecar: SidecarProcess) -> None:
    async with sidecar.agent() as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        answer = await client.call_tool("shell_run", {"command": "id"})

    assert "shell_run" not in tools
    denial = denial_of(answer)
    assert denial is not None
    assert denial["reason"] == "policy_denied"


async def test_a_client_that_goes_away_leaves_a_settled_call(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"

    async def call_and_vanish() -> None:
        async with sidecar.agent("vanishing") as client, anyio.create_task_group() as tasks:

            async def call() -> None:
                await client.call_tool("worker__sleep", {"seconds": 20, "started": str(started)})

            tasks.start_soon(call)
            await appears(started)
            tasks.cancel_scope.cancel()

    await call_and_vanish()

    async with sidecar.admin() as admin:
        with anyio.fail_after(60):
            while not (items := (await admin.get("calls")).json()["items"]):
                await anyio.sleep(0.05)
    assert [item["status"] for item in items] == ["cancelled"]
