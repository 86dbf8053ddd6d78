"""What calls take of servers that are started here, as real control groups count it."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from scenarios.process import WORKER, SidecarProcess, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.kernel]

SMALL = f"""
[[upstream]]
name = "small"
command = [{json.dumps(sys.executable)}, {json.dumps(str(WORKER))}]
limits = {{ memory_mib = 160, pids = 64 }}
"""
BUDGET = """
[[budget]]
id = "cpu"
scope = "session"
limits = { cpu_ms = 100000 }

[default]
estimate = { cpu_ms = 1000 }
"""
# What a server does beside a call: reading it, answering it, and a scheduler's rounding.
BESIDE_MS = 500


@asynccontextmanager
async def started(folder: Path, extra: str) -> AsyncIterator[SidecarProcess]:
    process = SidecarProcess(folder=folder, extra=extra)
    await anyio.to_thread.run_sync(process.start)
    try:
        yield process
    finally:
        await anyio.to_thread.run_sync(process.stop)


async def is_ready(sidecar: SidecarProcess, upstream: str) -> None:
    """Wait until a server is up; it is another process's work, so there is no event."""
    async with sidecar.admin() as admin:
        while (await admin.get(f"upstreams/{upstream}")).json()["state"] != "ready":
            await anyio.sleep(0.1)


def usage_of(result: Any) -> dict[str, Any]:
    usage: dict[str, Any] = result.meta["flyball/call"]["usage"]
    return usage


@pytest.mark.requirement("servers.calls-are-attributed")
async def test_a_call_is_charged_what_its_server_took_for_it_and_a_budget_counts_it(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(100):
        async with started(tmp_path, BUDGET) as sidecar, sidecar.agent("one") as client:
            quiet = usage_of(await client.call_tool("worker__echo", {"text": "hi"}))
            busy = usage_of(await client.call_tool("worker__burn", {"cpu_ms": 600}))
            big = usage_of(await client.call_tool("worker__hoard", {"mib": 200}))
            balances = await sidecar.balances()

    assert quiet["cpu_ms"] < BESIDE_MS
    assert 600 <= busy["cpu_ms"] < 600 + BESIDE_MS
    assert "cpu_ms" not in busy.get("estimated", [])
    assert big["memory_mib_s"] > 0
    (cpu,) = [one for one in balances if one["budget_id"] == "cpu"]
    assert cpu["used"] == quiet["cpu_ms"] + busy["cpu_ms"] + big["cpu_ms"]


@pytest.mark.requirement("servers.calls-are-attributed")
async def test_calls_that_share_a_server_divide_what_it_took_and_say_so(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []

    async with started(tmp_path, "") as sidecar:

        async def burn(session: str) -> None:
            async with sidecar.agent(session) as client:
                await ready.wait()
                found.append(usage_of(await client.call_tool("worker__burn", {"cpu_ms": 500})))

        ready = anyio.Event()
        with anyio.fail_after(100):
            async with anyio.create_task_group() as tasks:
                for session in ("one", "two", "three"):
                    tasks.start_soon(burn, session)
                await anyio.sleep(1)
                ready.set()
        async with sidecar.admin() as admin:
            records = (await admin.get("calls", params={"name": "worker__burn"})).json()["items"]

    total = sum(usage["cpu_ms"] for usage in found)
    assert 1_500 <= total < 1_500 + 3 * BESIDE_MS
    assert all("cpu_ms" in usage["estimated"] for usage in found)
    assert all("shared its server" in record["detail"] for record in records)


@pytest.mark.requirement("servers.limits")
async def test_a_server_at_its_memory_limit_is_killed_told_and_started_again(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(100):
        async with started(tmp_path, SMALL) as sidecar, sidecar.agent() as client:
            await is_ready(sidecar, "small")
            killed = await client.call_tool("small__hoard", {"mib": 400})
            await is_ready(sidecar, "small")
            again = await client.call_tool("small__echo", {"text": "back"})
            other = await client.call_tool("worker__hoard", {"mib": 400})
            async with sidecar.admin() as admin:
                upstream = (await admin.get("upstreams/small")).json()

    assert killed.is_error
    assert "memory limit of its table" in text_of(killed)
    assert text_of(again) == "back"
    assert not other.is_error
    assert upstream["last_end"]["cause"] == "memory"
