"""Nothing is left of a sidecar's servers, whatever ends it and whoever it runs as: counted."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest
from scenarios.process import WORKER, SidecarProcess, descendants, is_alive, text_of

from ebpf.capability import Host
from ebpf.domains.groups import remove_group
from tests.ebpf.commands import HOSTILE_CHILDREN, HOSTILE_SLEEPERS, ROOT, sleepers, until_sleeping
from tests.kernel.other_user import NOBODY, environment, interpreter_for

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.usefixtures("host"),
]

TOKEN = f"1000.{os.getpid()}555"
GONE_SECONDS_MAX = 60


@pytest.fixture(params=["root", "nobody"])
def crowded(request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """Yield a sidecar whose upstream is a wrapper around a server, with a hostile crowd."""
    folder = Path(tempfile.mkdtemp(prefix="flyball-test-"))
    python: str | None = sys.executable
    user = env = None
    if request.param == "nobody":
        python = interpreter_for(NOBODY, "runtime.wiring")
        if python is None:
            pytest.skip("no Python 3.11 that another user can run finds the packages")
        user, env = NOBODY, environment()
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env["PYTHONPATH"]])
        os.chown(folder, NOBODY, NOBODY)
    crowd = HOSTILE_CHILDREN.format(token=TOKEN)
    # As package runners do: the server is a child of what is started, not that itself.
    wrapper = f"{crowd}\nexec 3<&0; {python} {WORKER} <&3 & wait"
    extra = f"""
[[upstream]]
name = "crowd"
command = {json.dumps(["/bin/sh", "-c", wrapper])}
env = {{ PYTHONPATH = {json.dumps((env or {}).get("PYTHONPATH", os.pathsep.join(sys.path)))} }}
"""
    sidecar = SidecarProcess(folder=folder, extra=extra, python=(python,), user=user, env=env)
    try:
        sidecar.start()
        yield sidecar
    finally:
        with suppress(AssertionError):
            sidecar.stop()
        shutil.rmtree(folder)


@pytest.fixture
def tight(host: Host) -> Iterator[Path]:
    """Yield a control group with hardly any memory."""
    group = host.hierarchies["memory"].own / f"flyball-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(2 << 20))
    yield group
    assert remove_group(group), "something is left in the group"


async def crowd_of(sidecar: SidecarProcess) -> set[int]:
    """Return every process below a sidecar, once its upstream serves and its crowd is there."""
    async with sidecar.agent() as client:
        assert text_of(await client.call_tool("crowd__echo", {"text": "up"})) == "up"
    await until_sleeping(TOKEN, HOSTILE_SLEEPERS - 1)
    assert sidecar.process is not None
    return descendants(sidecar.process.pid)


def left(below: set[int]) -> list[int]:
    return [pid for pid in below if is_alive(pid)]


async def until_gone(below: set[int]) -> None:
    with anyio.fail_after(GONE_SECONDS_MAX):
        await until_sleeping(TOKEN, 0)
        while left(below):
            await anyio.sleep(0.02)


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_no_process_is_left_when_a_sidecar_is_asked_to_end(crowded: SidecarProcess) -> None:
    below = await crowd_of(crowded)

    crowded.signal(signal.SIGTERM)
    code = await anyio.to_thread.run_sync(crowded.wait)

    assert code == 0
    assert left(below) == []
    assert sleepers(TOKEN) == 0


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_no_process_is_left_when_a_sidecar_is_killed(crowded: SidecarProcess) -> None:
    below = await crowd_of(crowded)

    crowded.signal(signal.SIGKILL)
    code = await anyio.to_thread.run_sync(crowded.wait)
    await until_gone(below)  # nothing has started again

    assert code == -signal.SIGKILL
    assert len(below) > HOSTILE_SLEEPERS


@pytest.mark.requirement("process.none-outlives-sidecar")
async def test_no_process_is_left_when_the_kernel_kills_a_sidecar_for_its_memory(
    crowded: SidecarProcess, tight: Path
) -> None:
    below = await crowd_of(crowded)
    assert crowded.process is not None
    (tight / "cgroup.procs").write_text(str(crowded.process.pid))

    async with crowded.admin() as admin:
        with suppress(httpx.TransportError):
            while True:
                await admin.get("policies")
                await admin.get("/openapi.json")
    code = await anyio.to_thread.run_sync(crowded.wait)
    await until_gone(below)

    assert code == -signal.SIGKILL
    assert "oom_kill 0" not in (tight / "memory.oom_control").read_text()
