"""What `shell_run` sends, held and charged by a real sidecar on this machine's kernel."""

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from kernel.metered import sends, sink
from mcp import Client
from mcp.types import CallToolResult
from scenarios.process import SidecarProcess, denial_of

from ebpf.capability import CapabilityState, probe_host
from ebpf.executor import Command

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

LIMIT = 200_000
CONFIG = f"""
[[budget]]
id = "sent"
scope = "tenant"
limits = {{ egress_bytes = {LIMIT + 50_000} }}

[[rule]]
name = "shell"
tool = "shell_run"
limits = {{ memory_mib = 64, wall_ms = 20000, egress_bytes = {LIMIT} }}

[default]
isolation = "best_effort"
"""


@pytest.fixture(autouse=True)
def _metered() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: programs are loaded into the kernel")
    egress = probe_host().capability("egress_bytes")
    if egress.state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs programs in the kernel: {egress.why}")


@pytest.mark.requirement("egress.is-counted")
@pytest.mark.requirement("egress.budget-denies")
async def test_what_a_command_sends_is_held_recorded_and_denied_when_the_budget_is_short(
    tmp_path: Path,
) -> None:
    process = SidecarProcess(folder=tmp_path, extra=CONFIG)
    await anyio.to_thread.run_sync(process.start)
    try:
        with anyio.fail_after(60), sink() as server:
            async with process.agent("one") as client:
                small = await _run(client, sends(server.port, 5_000))
                large = await _run(client, sends(server.port, 10_000_000))
                await anyio.to_thread.run_sync(server.wait_for_quiet)
                # Once the sidecar has ended, nobody stops what TCP tries to send again.
                received = server.received
                denied = await client.call_tool("shell_run", {"command": "true"})
            async with process.admin() as admin:
                records: list[dict[str, Any]] = (await admin.get("calls")).json()["items"]
            (balance,) = [each for each in await process.balances() if each["budget_id"] == "sent"]
    finally:
        pid = process.process and process.process.pid
        await anyio.to_thread.run_sync(process.stop)

    assert not small.is_error
    said = large.content[-1].text
    assert f"of the {LIMIT} bytes that it may send" in said
    assert f"the first to 127.0.0.1:{server.port}" in said
    denial = denial_of(denied)
    assert denial is not None
    assert (denial["reason"], denial["unit"]) == ("budget_exhausted", "egress_bytes")
    by_status = {record["status"]: record for record in records}
    sent = by_status["limit_hit"]["charged"]["egress_bytes"]
    assert received - 5_000 <= sent <= LIMIT
    assert balance["used"] == sent + by_status["ok"]["charged"]["egress_bytes"]
    assert f"connected to 127.0.0.1:{server.port} (python3)" in by_status["ok"]["detail"]
    assert not pinned(pid)


async def _run(client: Client, command: Command) -> CallToolResult:
    return await client.call_tool("shell_run", {"argv": list(command.argv)})


def pinned(pid: int | None) -> list[Path]:
    """Return what a sidecar that has ended left in the bpf file system."""
    return list(Path("/sys/fs/bpf").glob(f"flyball-*-{pid}"))
