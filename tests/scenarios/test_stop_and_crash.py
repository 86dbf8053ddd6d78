import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from scenarios.process import (
    STOP_SECONDS_MAX,
    SidecarProcess,
    appears,
    denial_of,
    descendants,
    is_alive,
    text_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BUDGET = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 100, wall_ms = 10000000 }

[default]
limits = { wall_ms = 60000 }
estimate = { wall_ms = 7000 }
"""


async def leave_child(sidecar: SidecarProcess, folder: Path) -> int:
    pid_file = folder / "child.pid"
    async with sidecar.agent() as client:
        await client.call_tool("worker__leave_child", {"pid_file": str(pid_file)})
    return int(pid_file.read_text(encoding="utf-8"))


@pytest.mark.requirement("drain.no-child-left")
async def test_sigterm_lets_a_call_end_and_leaves_no_child_process(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    child = await leave_child(sidecar, tmp_path)
    assert sidecar.process is not None
    below = descendants(sidecar.process.pid) | {child}
    answers = []

    async def call() -> None:
        async with sidecar.agent() as client:
            arguments = {"seconds": 1.5, "started": str(started)}
            answers.append(await client.call_tool("worker__sleep", arguments))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await appears(started)
        sidecar.signal(signal.SIGTERM)
    code = await anyio.to_thread.run_sync(sidecar.wait)

    assert code == 0
    assert [text_of(answer) for answer in answers] == ["slept"]
    assert [pid for pid in below if is_alive(pid)] == []


@pytest.mark.requirement("drain.answers-are-read")
async def test_a_client_that_lists_tools_before_it_shows_an_answer_gets_it_during_a_stop(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    answers = {}
    ready = sidecar.urls["admin"].replace("/admin/v1", "/readyz")

    async def call(name: str, *, lists: bool) -> None:
        async with sidecar.agent(lists=lists) as client:
            arguments = {
                "started": str(tmp_path / f"{name} started"),
                "until": str(tmp_path / f"{name} may end"),
            }
            answers[name] = text_of(await client.call_tool("worker__hold", arguments))
            returned[name].set()

    returned = {"first": anyio.Event(), "last": anyio.Event()}
    with anyio.fail_after(STOP_SECONDS_MAX):
        async with (
            sidecar.agent() as other,
            sidecar.admin() as admin,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(call, "first", lists=False))
            tasks.start_soon(partial(call, "last", lists=True))
            for name in returned:
                await appears(tmp_path / f"{name} started")
            sidecar.signal(signal.SIGTERM)
            while (await admin.get(ready)).is_success:
                await anyio.sleep(0.02)
            denial = denial_of(await other.call_tool("worker__echo", {"text": "more"}))
            (tmp_path / "first may end").touch()
            await returned["first"].wait()
            (tmp_path / "last may end").touch()
        code = await anyio.to_thread.run_sync(sidecar.wait)

    assert denial is not None
    assert denial["reason"] == "overloaded"
    assert "shutting down" in denial["remedy"]["text"]
    assert (code, answers) == (0, {"first": "held", "last": "held"})


@pytest.mark.requirement("crash.forwarded-is-charged")
@pytest.mark.requirement("crash.restart-reaps")
@pytest.mark.parametrize("sidecar", [BUDGET], indirect=True)
async def test_after_sigkill_the_next_start_reaps_children_and_charges_what_was_forwarded(
    sidecar: SidecarProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    child = await leave_child(sidecar, tmp_path)
    assert sidecar.process is not None
    below = descendants(sidecar.process.pid) | {child}

    async def call() -> None:
        # The client's connection is cut under it; how it says so is not ours.
        with suppress(ExceptionGroup):
            async with sidecar.agent() as client:
                arguments = {"seconds": 50, "started": str(started)}
                await client.call_tool("worker__sleep", arguments)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await appears(started)
        sidecar.signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(sidecar.wait)
        tasks.cancel_scope.cancel()
    sidecar.start()
    balances = {item["unit"]: item for item in await sidecar.balances()}
    async with sidecar.admin() as admin:
        expired = (await admin.get("calls", params={"status": "expired"})).json()["items"]

    assert [pid for pid in below if is_alive(pid)] == []
    assert [balances[unit]["reserved"] for unit in ("tool_calls", "wall_ms")] == [0, 0]
    assert balances["tool_calls"]["used"] == 2
    assert balances["wall_ms"]["used"] >= 7000
    assert [item["name"] for item in expired] == ["worker__sleep"]
    async with sidecar.agent() as client:
        assert text_of(await client.call_tool("worker__echo", {"text": "on"})) == "on"


async def test_a_second_sidecar_on_the_same_state_directory_is_refused(
    sidecar: SidecarProcess,
) -> None:
    assert sidecar.process is not None
    second = await anyio.run_process(
        [
            *(sys.executable, "-m", "runtime", "up"),
            *("--config", str(sidecar.folder / "flyball.toml"), "--state", str(sidecar.state)),
        ],
        check=False,
        stderr=subprocess.PIPE,
    )

    assert second.returncode == 2
    said = second.stderr.decode()
    assert f"in use by another sidecar (pid {sidecar.process.pid})" in said
    assert "Traceback" not in said
