"""What administrators do to calls on a whole sidecar: freeze, resume, approve after a crash."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from scenarios.process import SidecarProcess, appears, denial_of, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RULES = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 100, wall_ms = 10000000 }

[[rule]]
name = "shell"
tool = "shell_run"
isolation = "best_effort"
limits = { wall_ms = 6000 }

[[rule]]
name = "ask"
tool = "worker__echo"
approve = true
approval_wait_s = 0
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that commands of another user can write."""
    path = Path(tempfile.mkdtemp(prefix="flyball-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


async def session_id(sidecar: SidecarProcess) -> str:
    async with sidecar.admin() as admin:
        (session,) = (await admin.get("sessions", params={"open": "true"})).json()["items"]
        return str(session["id"])


@pytest.mark.requirement("session.frozen-stands-still")
@pytest.mark.requirement("session.frozen-denies")
@pytest.mark.parametrize("sidecar", [RULES], indirect=True)
async def test_a_command_of_a_frozen_session_outlasts_its_time_limit_and_goes_on(
    sidecar: SidecarProcess, open_folder: Path
) -> None:
    began, may_end = open_folder / "began", open_folder / "may_end"
    waits = f"touch {began}; while [ ! -e {may_end} ]; do sleep 0.05; done; echo went on"
    answers: list[Any] = []

    async def call() -> None:
        async with sidecar.agent("one") as client:
            answers.append(await client.call_tool("shell_run", {"command": waits}))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, sidecar.admin() as admin:
            tasks.start_soon(call)
            await appears(began)
            path = f"sessions/{await session_id(sidecar)}"
            frozen = (await admin.post(f"{path}/freeze")).json()
            async with sidecar.agent("one") as client:
                denied = await client.call_tool("shell_run", {"command": "true"})
            # Longer than the command's whole time limit.
            await anyio.sleep(6.5)
            may_end.touch()
            resumed = (await admin.post(f"{path}/resume")).json()

    assert (frozen["commands_frozen"], resumed["commands_resumed"]) == (1, 1)
    denial = denial_of(denied)
    assert denial is not None
    assert denial["reason"] == "session_frozen"
    assert text_of(answers[0]) == "went on\n"
    assert answers[0].meta["flyball/call"]["usage"]["wall_ms"] < 6_000


@pytest.mark.requirement("approval.outlives-restart")
@pytest.mark.parametrize("sidecar", [RULES], indirect=True)
async def test_a_question_outlives_sigkill_and_its_answer_runs_one_call(
    sidecar: SidecarProcess,
) -> None:
    async def call() -> Any:
        async with sidecar.agent("one") as client:
            return await client.call_tool("worker__echo", {"text": "hello"})

    waiting = denial_of(await call())
    assert waiting is not None
    sidecar.signal(signal.SIGKILL)
    sidecar.wait()
    sidecar.start()
    held = {line["unit"]: line["reserved"] for line in await sidecar.balances()}
    async with sidecar.admin() as admin:
        answer = await admin.post(f"approvals/{waiting['approval_id']}/approve")
    ran, again = await call(), await call()

    assert waiting["reason"] == "approval_pending"
    assert held["tool_calls"] == 1
    assert answer.status_code == 200
    assert "hello" in text_of(ran)
    asked_again = denial_of(again)
    assert asked_again is not None
    assert asked_again["reason"] == "approval_pending"
    assert asked_again["approval_id"] != waiting["approval_id"]
