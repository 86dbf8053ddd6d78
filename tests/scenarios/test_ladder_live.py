"""Commands that run out of memory on a whole sidecar: who is asked, and what comes of it."""

import json
from typing import Any

import anyio
import mcp_types
import pytest
from scenarios.process import SidecarProcess, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RULES = """
[[budget]]
id = "memory"
scope = "tenant"
limits = {{ memory_mib_s = {memory_mib_s}, tool_calls = 100 }}

[[budget]]
id = "one_at_a_time"
scope = "tenant"
kind = "concurrency"
limits = {{ tool_calls = 1 }}

[ladder]
ask = "{ask}"
wait_s = {wait_s}
full_percent = 80

[[rule]]
name = "shell"
tool = "shell_run"
isolation = "best_effort"
limits = {{ memory_mib = 64, memory_mib_max = 256, wall_ms = 20000 }}
estimate = {{ memory_mib_s = 100 }}
"""
# Slow enough for hosts that only sample.
HOG = """
import time
held = []
while len(held) < 90:
    held.append(bytearray(b"x" * 1048576))
    time.sleep(0.01)
print("has it all")
"""
COMMAND = {"argv": ["/usr/bin/env", "python3", "-S", "-c", HOG]}


def rules(*, ask: str, memory_mib_s: int = 1_000_000, wait_s: int = 20) -> str:
    return RULES.format(ask=ask, memory_mib_s=memory_mib_s, wait_s=wait_s)


async def asked_about(admin: Any) -> dict[str, Any]:
    with anyio.fail_after(60):
        while True:
            items = (await admin.get("approvals", params={"state": "pending"})).json()["items"]
            if items:
                return dict(items[0])
            await anyio.sleep(0.05)


@pytest.mark.requirement("ladder.raise-goes-on")
@pytest.mark.parametrize("sidecar", [rules(ask="admin")], indirect=True)
@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_an_administrator_gives_a_command_more_memory_or_refuses_it(
    sidecar: SidecarProcess, verb: str
) -> None:
    answers: list[Any] = []

    async def call() -> None:
        async with sidecar.agent("one") as client:
            answers.append(await client.call_tool("shell_run", COMMAND))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, sidecar.admin() as admin:
            tasks.start_soon(call)
            question = await asked_about(admin)
            while_asked = {line["unit"]: line for line in await sidecar.balances()}
            answer = await admin.post(f"approvals/{question['id']}/{verb}", json={"reason": "why"})
        async with sidecar.agent("one") as client:
            again = {"command": "echo on", "resources": {"memory_mib": 128}}
            later = await client.call_tool("shell_run", again)
    after = {line["unit"]: line for line in await sidecar.balances() if line["reserved"]}

    figures = json.loads(question["arguments"])
    assert answer.status_code == 200
    assert (figures["limit_mib"], figures["wanted_mib"]) == (64, 128)
    assert question["rule"].startswith("shell (memory of ")
    # What a raise may cost more was held before anybody was asked, and is free afterwards.
    assert while_asked["memory_mib_s"]["reserved"] == 100 + question["held"]["memory_mib_s"]
    assert question["held"]["memory_mib_s"] > 0
    assert after == {}
    (result,) = answers
    if verb == "approve":
        assert text_of(result) == "has it all\n"
        assert later.meta["flyball/granted"]["memory_mib"] == 128
    else:
        assert result.is_error
        assert "a person refused it more: why" in text_of(result)
        assert "python3" in text_of(result)
        # What a person refused is not to be had by saying that it is needed.
        assert "resources" not in text_of(result)
        assert later.meta["flyball/granted"]["memory_mib"] == 64
        assert "refused" in later.meta["flyball/granted"]


@pytest.mark.parametrize("sidecar", [rules(ask="admin", wait_s=1)], indirect=True)
async def test_a_question_that_nobody_answers_ends_the_call_and_is_taken_back(
    sidecar: SidecarProcess,
) -> None:
    with anyio.fail_after(60):
        async with sidecar.agent("one") as client:
            result = await client.call_tool("shell_run", COMMAND)
            next_one = await client.call_tool("shell_run", {"command": "echo on"})
        async with sidecar.admin() as admin:
            items = (await admin.get("approvals")).json()["items"]

    assert result.is_error
    assert "did not answer" in text_of(result)
    assert [item["state"] for item in items] == ["withdrawn"]
    # The call was ended, and its session goes on.
    assert text_of(next_one) == "on\n"


@pytest.mark.requirement("ladder.budget-bounds-a-raise")
@pytest.mark.parametrize("sidecar", [rules(ask="admin", memory_mib_s=150)], indirect=True)
async def test_where_a_budget_has_no_room_for_more_memory_nobody_is_asked(
    sidecar: SidecarProcess,
) -> None:
    with anyio.fail_after(60):
        async with sidecar.agent("one") as client:
            result = await client.call_tool("shell_run", COMMAND)
        async with sidecar.admin() as admin:
            items = (await admin.get("approvals")).json()["items"]

    assert result.is_error
    assert "no budget has room for more memory" in text_of(result)
    assert items == []


@pytest.mark.requirement("ladder.raise-goes-on")
@pytest.mark.parametrize("sidecar", [rules(ask="agent")], indirect=True)
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_the_agents_client_is_asked_in_the_way_of_its_era(
    sidecar: SidecarProcess, mode: str
) -> None:
    asked: list[Any] = []

    async def elicit(_: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params)
        return mcp_types.ElicitResult(
            action="accept", content={"answer": "raise", "memory_mib": 120}
        )

    with anyio.fail_after(60):
        async with sidecar.agent("one", mode=mode, elicitation_callback=elicit) as client:
            result = await client.call_tool("shell_run", COMMAND)

    assert text_of(result) == "has it all\n"
    assert len(asked) == 1
    assert "64 MiB" in asked[0].message


@pytest.mark.parametrize("sidecar", [rules(ask="agent")], indirect=True)
async def test_a_client_that_cannot_be_asked_has_its_limit_and_no_more(
    sidecar: SidecarProcess,
) -> None:
    with anyio.fail_after(60):
        async with sidecar.agent("one") as client:
            result = await client.call_tool("shell_run", COMMAND)

    assert result.is_error
    assert "memory limit of 64 MiB" in text_of(result)
    assert "where N is up to 256" in text_of(result)
