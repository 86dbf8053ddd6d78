"""A running sidecar takes another configuration over, with calls in flight."""

import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from scenarios.process import WORKER, SidecarProcess, appears, denial_of, servers_below, text_of

pytestmark = pytest.mark.anyio

BUDGET = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 100 }
"""
HIDING = '\n[[rule]]\nname = "no-echo"\ntool = "worker__echo"\nallow = false\n'


def config_of(sidecar: SidecarProcess) -> Path:
    return sidecar.folder / "flyball.toml"


def rewrite(sidecar: SidecarProcess, *changes: tuple[str, str], more: str = "") -> None:
    text = config_of(sidecar).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config_of(sidecar).write_text(text + more, encoding="utf-8")


def another(name: str, *arguments: str) -> str:
    command = json.dumps([sys.executable, str(WORKER), *arguments])
    return f'\n[[upstream]]\nname = "{name}"\ncommand = {command}\n'


async def reload(sidecar: SidecarProcess, *, status: int = 200) -> dict[str, Any]:
    async with sidecar.admin() as admin:
        answer = await admin.post("reload", timeout=60)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


@asynccontextmanager
async def holding(sidecar: SidecarProcess, folder: Path) -> AsyncIterator[list[str]]:
    """Have a call run at the worker during the block, and let it end afterwards."""
    answers: list[str] = []
    started, until = folder / "started", folder / "until"

    async def call() -> None:
        async with sidecar.agent("holder") as client:
            arguments = {"started": str(started), "until": str(until)}
            answers.append(text_of(await client.call_tool("worker__hold", arguments)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await appears(started)
            yield answers
            assert not answers, "the call was to run all the while"
            until.touch()


@pytest.mark.requirement("reload.drops-no-call")
@pytest.mark.parametrize("sidecar", [BUDGET], indirect=True)
async def test_a_call_at_an_upstream_that_is_replaced_is_answered_and_the_next_goes_to_the_new_one(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    assert sidecar.process is not None
    before = servers_below(sidecar.process.pid)

    async with holding(sidecar, tmp_path) as answers:
        rewrite(sidecar, ('name = "worker"', 'name = "worker"\nenv = { NEW = "1" }'))
        told = await reload(sidecar)
        async with sidecar.agent() as client:
            with anyio.fail_after(60):
                again = await client.call_tool("worker__echo", {"text": "at once"})

    assert told["upstreams"]["replaced"] == ["worker"]
    assert text_of(again) == "at once"
    assert answers == ["held"]
    with anyio.fail_after(60):
        while servers_below(sidecar.process.pid) & before:
            await anyio.sleep(0.05)
    assert {(item["used"], item["reserved"]) for item in await sidecar.balances()} == {(2, 0)}


@pytest.mark.requirement("reload.drops-no-call")
async def test_a_call_at_an_upstream_that_is_removed_is_answered_and_its_tools_are_gone(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    async with holding(sidecar, tmp_path) as answers:
        rewrite(sidecar, ('name = "worker"', 'name = "other"'))
        told = await reload(sidecar)
        async with sidecar.agent() as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            with pytest.raises(MCPError, match="unknown tool"):
                await client.call_tool("worker__echo", {"text": "late"})
            fresh = await client.call_tool("other__echo", {"text": "new"})

    assert (told["upstreams"]["added"], told["upstreams"]["removed"]) == (["other"], ["worker"])
    assert "other__echo" in tools
    assert not any(name.startswith("worker__") for name in tools)
    assert text_of(fresh) == "new"
    assert answers == ["held"]


async def test_clients_are_told_and_rules_hold_at_once(sidecar: SidecarProcess) -> None:
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    async with sidecar.agent("one", mode="legacy", message_handler=hear) as client:
        fine = await client.call_tool("worker__echo", {"text": "fine"})
        rewrite(sidecar, more=HIDING)
        reloaded = await reload(sidecar)
        with anyio.fail_after(60):
            await told.wait()
        tools = {tool.name for tool in (await client.list_tools()).tools}
        denied = await client.call_tool("worker__echo", {"text": "no more"})

    assert text_of(fine) == "fine"
    assert reloaded["applied"] == ["rule"]
    assert reloaded["upstreams"] == {"added": [], "removed": [], "replaced": [], "retuned": []}
    assert "worker__echo" not in tools
    assert (denial_of(denied) or {})["reason"] == "policy_denied"
    async with sidecar.admin() as admin:
        assert (await admin.get("policies")).json()["version"] == reloaded["version"]


async def test_a_word_that_needs_no_other_connection_makes_none(sidecar: SidecarProcess) -> None:
    assert sidecar.process is not None
    before = servers_below(sidecar.process.pid)

    rewrite(sidecar, ('name = "worker"', 'name = "worker"\nretries = 0\nbreaker = "off"'))
    told = await reload(sidecar)

    assert told["upstreams"]["retuned"] == ["worker"]
    assert servers_below(sidecar.process.pid) == before
    async with sidecar.admin() as admin:
        (listed,) = (await admin.get("upstreams")).json()["items"]
    assert (listed["state"], listed["breaker"]) == ("ready", None)


@pytest.mark.requirement("reload.all-or-nothing")
@pytest.mark.requirement("reload.is-audited")
async def test_a_file_at_fault_changes_nothing_and_what_needs_a_restart_is_named(
    sidecar: SidecarProcess,
) -> None:
    good = config_of(sidecar).read_text(encoding="utf-8")

    rewrite(sidecar, ('name = "worker"', 'name = "other"'), more="\n[[rule]]\nnam = 3\n")
    refused = await reload(sidecar, status=422)
    async with sidecar.agent() as client:
        still = await client.call_tool("worker__echo", {"text": "as before"})
    config_of(sidecar).write_text(good + "\n[records]\nretention_days = 3\n", encoding="utf-8")
    named = await reload(sidecar)

    assert "rule[0].nam: there is no such key" in refused["detail"]
    assert text_of(still) == "as before"
    assert (named["applied"], named["needs_restart"]) == ([], ["records"])
    async with sidecar.admin() as admin:
        changes = (await admin.get("audit")).json()["items"]
    reloads = [change for change in changes if change["action"] == "config.reload"]
    assert len(reloads) == 1, "what was refused changed nothing"
    assert reloads[0]["actor"] != ""


@pytest.mark.requirement("reload.all-or-nothing")
async def test_a_hangup_reloads_and_says_so(sidecar: SidecarProcess) -> None:
    rewrite(sidecar, more=another("second"))
    sidecar.signal(signal.SIGHUP)
    await says(sidecar, "the configuration was reloaded")
    async with sidecar.agent() as client:
        answer = await client.call_tool("second__echo", {"text": "here"})
    rewrite(sidecar, more="\nnonsense = 1\n")
    sidecar.signal(signal.SIGHUP)
    await says(sidecar, "not reloaded and nothing has changed")

    assert text_of(answer) == "here"
    assert "upstreams: added second" in sidecar.log()


async def says(sidecar: SidecarProcess, words: str) -> None:
    """Wait until the process has written something; it shares no event with us."""
    with anyio.fail_after(60):
        while words not in sidecar.log():
            await anyio.sleep(0.05)
