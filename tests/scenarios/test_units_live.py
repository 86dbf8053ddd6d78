"""Every unit over a mixed live run: what the records say is what the balances say."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from scenarios.model import a_model
from scenarios.process import SidecarProcess, denial_of

from governor.amounts import Unit
from governor.usage import OF_PROBES

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
HUGE = 10**12
UNITS = ", ".join(f"{unit.value} = {HUGE}" for unit in Unit)
# No probe is assigned to them here: the estimate is charged.
PROBES = ", ".join(f"{unit.value} = 17" for unit in OF_PROBES)
CONFIG = f"""
[[budget]]
id = "all"
scope = "tenant"
limits = {{ {UNITS} }}

[[budget]]
id = "each"
scope = "session"
limits = {{ tool_calls = 8, {UNITS.replace(f"tool_calls = {HUGE}, ", "")} }}

[unified_cost]
tool_call_microusd = 100
cpu_second_microusd = 20

[energy]
watts_per_core = 7.5

[[rule]]
name = "shell"
tool = "shell_run"
cost_microusd = 50
turn_per_call = true
isolation = "best_effort"
limits = {{ memory_mib = 64, wall_ms = 10000 }}

[default]
cost_microusd = 3
isolation = "best_effort"
turn_per_call = true
estimate = {{ wall_ms = 5000, io_bytes = 11, egress_bytes = 13, {PROBES} }}
"""
MODEL = """
[[provider]]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"

[[tier]]
name = "low"
provider = "scripted"
model = "scripted-small"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"
"""


@asynccontextmanager
async def started(folder: Path, model: str) -> AsyncIterator[SidecarProcess]:
    process = SidecarProcess(folder=folder, extra=CONFIG + model)
    await anyio.to_thread.run_sync(process.start)
    try:
        yield process
    finally:
        await anyio.to_thread.run_sync(process.stop)


async def play(sidecar: SidecarProcess, session: str) -> None:
    """Make calls of every kind, the last one above the session's budget."""
    async with sidecar.agent(session) as client:
        for tool, arguments in (
            ("worker__echo", {"text": "short"}),
            ("worker__big", {"lines": 3000}),
            ("shell_run", {"command": "dd if=/dev/zero of=/dev/null bs=1M count=500"}),
            ("shell_run", {"command": "no-such-command"}),
            ("shell_run", {"argv": ["/no/such/program"]}),
            ("governor_status", {}),
            ("memory_write", {"content": "The worker echoes."}),
            ("memory_search", {"query": "what does the worker do?", "lanes": ["agent", "web"]}),
            ("worker__echo", {"text": "another"}),
            ("worker__echo", {"text": "the eighth that is charged"}),
            ("worker__echo", {"text": "over the budget of eight"}),
        ):
            answer = await client.call_tool(tool, arguments)
    assert denial_of(answer) is not None
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(
            sidecar.urls["models"].rstrip("/") + "/chat/completions",
            headers={
                "Authorization": f"Bearer {sidecar.token('agent')}",
                "Flyball-Session": session,
            },
            json={"model": "low", "messages": [{"role": "user", "content": "Why?"}]},
        )
        assert answer.status_code == 200, answer.text


async def books_of(sidecar: SidecarProcess) -> tuple[list[Json], list[Json], dict[str, Json]]:
    """Return every record, every bill, and the tenant's balances by unit."""
    async with sidecar.admin() as admin:
        records = (await admin.get("calls", params={"limit": 100})).json()["items"]
        sessions = (await admin.get("sessions")).json()["items"]
        bills = [(await admin.get(f"sessions/{each['id']}")).json()["bill"] for each in sessions]
    lines = await sidecar.balances()
    return records, bills, {line["unit"]: line for line in lines if line["budget_id"] == "all"}


@pytest.mark.requirement("books.reconcile")
async def test_what_the_records_were_charged_is_what_the_balances_settled(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(90):
        async with a_model() as port, started(tmp_path, MODEL.format(port=port)) as sidecar:
            async with anyio.create_task_group() as tasks:
                for session in ("one", "two"):
                    tasks.start_soon(play, sidecar, session)
            records, bills, settled = await books_of(sidecar)

    charged: Counter[str] = Counter()
    billed: Counter[str] = Counter()
    for record in records:
        charged.update(record["charged"])
    for bill in bills:
        billed.update(bill["charged"])

    assert {record["status"] for record in records} >= {"ok", "denied", "released", "tool_error"}
    assert {record["kind"] for record in records} == {"tool", "model"}
    assert set(settled) == {unit.value for unit in Unit}
    for unit in Unit:
        assert settled[unit.value]["used"] == charged[unit.value] == billed[unit.value], unit
        assert settled[unit.value]["reserved"] == 0, unit
        assert charged[unit.value] > 0, unit
    for record in records:
        parts = record["charged"]
        thousandths = 1000 * (parts["cost_microusd"] + 100 * parts["tool_calls"])
        assert record["unified_cost_microusd"] == -(-(thousandths + 20 * parts["cpu_ms"]) // 1000)
