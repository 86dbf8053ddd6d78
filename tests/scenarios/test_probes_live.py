"""A budget on what an operator's probe counts, held by a real sidecar on this machine's kernel."""

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from scenarios.process import SidecarProcess, denial_of

from ebpf.capability import CapabilityState, probe_host
from ebpf.custom.running import start_probe
from ebpf.custom.shelf import Probe
from ebpf.errors import ProbeError
from governor.amounts import Unit
from runtime.probes import shelf_of

pytestmark = [pytest.mark.kernel, pytest.mark.anyio, pytest.mark.timeout(300)]

OPENS = "TRACEPOINT_PROBE(syscalls, sys_enter_openat) { flyball_count(1); return 0; }\n"
LIMIT = 2_000
CONFIG = f"""
[[budget]]
id = "opens"
scope = "session"
limits = {{ probe_1 = {LIMIT} }}

[[rule]]
name = "shell"
tool = "shell_run"
limits = {{ memory_mib = 64, wall_ms = 20000 }}

[default]
isolation = "best_effort"
"""


@pytest.fixture(autouse=True)
def _counted() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: programs are loaded into the kernel")
    probes = probe_host().capability("probes")
    if probes.state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs programs in the kernel: {probes.why}")

    async def tried() -> None:
        await (await start_probe(Probe(name="opens", source=OPENS))).stop()

    try:
        anyio.run(tried)
    except ProbeError as error:
        if "apt install" in str(error) or "linux-libc-dev" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.requirement("probes.are-units")
async def test_a_budget_on_a_probes_unit_denies_without_the_probe_and_when_it_is_used_up(
    tmp_path: Path,
) -> None:
    process = SidecarProcess(folder=tmp_path, extra=CONFIG)
    await anyio.to_thread.run_sync(process.start)
    try:
        with anyio.fail_after(240):
            async with process.agent("one") as client:
                unknown = await opened(client, times=0)
                shelf_of(process.state).add(Probe(name="opens", source=OPENS, unit=Unit.PROBE_1))
                small = await opened_once_counted(client)
                large = await opened(client, times=LIMIT)
                denied = await opened(client, times=0)
            async with process.admin() as admin:
                records: list[dict[str, Any]] = (await admin.get("calls")).json()["items"]
            (balance,) = await process.balances()
    finally:
        await anyio.to_thread.run_sync(process.stop)

    assert unknown is not None
    assert (unknown["reason"], unknown["unit"]) == ("unit_unmeasurable", "probe_1")
    assert "`flyball probe add FILE --unit UNIT`" in unknown["remedy"]["text"]
    assert (small, large) == (None, None)
    assert denied is not None
    assert (denied["reason"], denied["unit"]) == ("budget_exhausted", "probe_1")
    counted = sorted(each["charged"]["probe_1"] for each in records if each["status"] == "ok")
    assert 0 < counted[0] < LIMIT < counted[1] < LIMIT + counted[0] + 100
    assert balance["used"] == sum(counted)
    assert balance["unit"] == "probe_1"


async def opened_once_counted(client: Client) -> dict[str, Any] | None:
    """Return how the first call was denied for another reason than that nobody counts yet."""
    while True:
        denial = await opened(client, times=0)
        if denial is None or denial["reason"] != "unit_unmeasurable":
            return denial
        await anyio.sleep(0.5)


async def opened(client: Client, *, times: int) -> dict[str, Any] | None:
    """Return how a command that opens a file so often was denied, None where it ran."""
    script = f"i=0; while [ $i -lt {times} ]; do : < /dev/null; i=$((i+1)); done"
    return denial_of(await client.call_tool("shell_run", {"command": script}))
