"""`flyball run`: real programs as agents beside a real sidecar."""

import json
import signal
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from scenarios.launched import PYTHON, launched, launching, program, told, visited, workplace
from scenarios.model import a_model
from scenarios.process import SidecarProcess, is_alive
from scenarios.stray_agent import STRAY

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
EXIT_BUDGET, EXIT_SESSION, EXIT_LIMIT, EXIT_SIDECAR = 120, 121, 122, 123

AGENT = """
import os, anyio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    headers = {"Authorization": f"Bearer {os.environ['FLYBALL_TOKEN']}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(os.environ["FLYBALL_MCP_URL"], http_client=http)) as client,
    ):
        answer = await client.call_tool("worker__echo", {"text": "from the agent"})
        print(answer.content[0].text)

anyio.run(main)
"""
BURN = """
import signal, sys, pathlib
def ask(number, frame):
    pathlib.Path("asked").write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, ask)
while True:
    pass
"""
BEAT = """
import pathlib, time
beats = pathlib.Path("beats")
while True:
    with beats.open("a") as file:
        file.write(".")
    time.sleep(0.02)
"""


@pytest.fixture
def visitor(shared_sidecar: SidecarProcess, tmp_path: Path) -> SidecarProcess:
    return visited(shared_sidecar, tmp_path)


@pytest.fixture
def visitor_beats(visitor: SidecarProcess) -> Path:
    return workplace(visitor) / "beats"


@pytest.fixture
def beats(sidecar: SidecarProcess) -> Path:
    return workplace(sidecar) / "beats"


async def run(sidecar: SidecarProcess, *words: str) -> Any:
    return await anyio.to_thread.run_sync(lambda: launched(sidecar, *words))


async def records_of(sidecar: SidecarProcess, session_id: str) -> list[Json]:
    async with sidecar.admin() as admin:
        answer = await admin.get("calls", params={"limit": 100, "session": session_id})
        items: list[Json] = answer.json()["items"]
    return [one for one in items if one["session"] == session_id]


async def session_named(sidecar: SidecarProcess, name: str) -> Json:
    async with sidecar.admin() as admin:
        for one in (await admin.get("sessions")).json()["items"]:
            if one["name"] == name:
                found: Json = one
                return found
    pytest.fail(f"there is no session {name}")


async def begun(path: Path) -> None:
    """Wait until an agent has written a file; starting one takes two interpreters."""
    with anyio.fail_after(60):
        while not await anyio.Path(path).exists():
            await anyio.sleep(0.02)


def size(path: Path) -> int:
    return path.stat().st_size


async def gone(pid: int) -> None:
    """Wait until a process is gone, as another process sees to it."""
    with anyio.fail_after(60):
        while is_alive(pid):
            await anyio.sleep(0.02)


@pytest.mark.requirement("run.agent-is-a-session")
async def test_an_agent_has_its_own_status_and_is_charged_what_it_took(
    visitor: SidecarProcess,
) -> None:
    burn = program(
        visitor,
        "burn",
        "import time\nend = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\nraise SystemExit(7)",
    )

    ended = await run(visitor, "--json", "--", PYTHON, burn)

    assert ended.status == 7, ended.told
    shape = ended.shape
    assert (shape["exit_code"], shape["signal"], shape["ended_by"]) == (7, None, None)
    assert shape["usage"]["cpu_ms"] >= 300
    records = await records_of(visitor, shape["session_id"])
    assert {record["name"] for record in records} == {"agent_run"}
    charged = sum(record["charged"].get("cpu_ms", 0) for record in records)
    assert charged == shape["usage"]["cpu_ms"]
    assert sum(record["charged"].get("tool_calls", 0) for record in records) == 1


@pytest.mark.requirement("run.agent-is-a-session")
async def test_what_an_agent_calls_is_of_its_session_without_a_word_about_it(
    visitor: SidecarProcess,
) -> None:
    agent = program(visitor, "agent", AGENT)

    ended = await run(visitor, "--json", "--session", "mine", "--", PYTHON, agent)

    assert (ended.status, ended.out.splitlines()[0]) == (0, "from the agent"), ended.told
    records = await records_of(visitor, ended.shape["session_id"])
    assert {record["name"] for record in records} == {"agent_run", "worker__echo"}


@pytest.mark.requirement("run.key-is-pinned")
@pytest.mark.parametrize("workers", [1, 2])
async def test_an_agent_does_not_step_out_of_its_session_by_naming_another(
    tmp_path: Path, workers: int
) -> None:
    sidecar = SidecarProcess(folder=tmp_path, workers=workers)
    await anyio.to_thread.run_sync(sidecar.start)
    try:
        agent = program(sidecar, "stray", STRAY)
        ended = await run(sidecar, "--json", "--session", "mine", "--", PYTHON, agent)
        async with sidecar.admin() as admin:
            known = (await admin.get("sessions")).json()["items"]
            calls = (await admin.get("calls", params={"limit": 100})).json()["items"]
    finally:
        await anyio.to_thread.run_sync(sidecar.stop)

    assert ended.status == 0, ended.told
    told = json.loads(ended.out.splitlines()[0])
    assert told == {
        "spawned": 201,
        "ran": [False] * 5,
        "refused": ["There is no such session."] * 3,
        "chats": ["model_not_found", "model_not_found", "session_not_found"],
        "sessions": [404, 404],
        "tasks": [403, 403],
    }
    names = {one["id"]: one["name"] for one in known}
    echoes = [names[one["session"]] for one in calls if one["name"] == "worker__echo"]
    assert sorted(echoes) == ["child of mine", *["mine"] * 4]
    assert set(names.values()) == {"mine", "child of mine"}


async def test_the_key_of_an_agent_is_good_for_nothing_when_it_has_ended(
    visitor: SidecarProcess,
) -> None:
    ended = await run(visitor, "--", "sh", "-c", "echo $OPENAI_API_KEY; echo $OPENAI_BASE_URL")

    key, base_url = ended.out.split()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.get(f"{base_url}/models", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 401
    assert base_url == visitor.urls["models"].rstrip("/")


async def test_an_agent_asks_for_models_in_its_session(tmp_path: Path) -> None:
    tier = """
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
    # What the official libraries read and send, without a library that is not installed here.
    source = """
import httpx, os
answer = httpx.post(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    json={"model": "low", "messages": [{"role": "user", "content": "Why?"}]},
    trust_env=False, timeout=60,
)
print(answer.status_code)
"""
    async with a_model() as port:
        sidecar = SidecarProcess(folder=tmp_path, extra=tier.format(port=port))
        await anyio.to_thread.run_sync(sidecar.start)
        try:
            agent = program(sidecar, "agent", source)
            ended = await run(sidecar, "--json", "--", PYTHON, agent)
            records = await records_of(sidecar, ended.shape["session_id"])
        finally:
            await anyio.to_thread.run_sync(sidecar.stop)

    assert ended.out.splitlines()[0] == "200", ended.told
    assert {record["kind"] for record in records} == {"tool", "model"}


@pytest.mark.requirement("run.budget-ends-agent")
async def test_an_agent_that_used_up_its_allowance_is_asked_to_end_and_told_why(
    visitor: SidecarProcess,
) -> None:
    agent = program(visitor, "burn", BURN)

    ended = await run(
        visitor, "--json", "--limits", "cpu_ms=3000,tool_calls=5", "--", PYTHON, agent
    )

    assert ended.status == EXIT_BUDGET, ended.told
    shape = ended.shape
    assert shape["ended_by"] == "budget"
    assert "cpu_ms" in shape["why"]
    assert "the agent is ended" in ended.told
    # It got its chance to end by itself, and no more than that beyond its allowance.
    assert (workplace(visitor) / "asked").exists()
    # Whoever watches it may be kept waiting by a busy machine; it would have gone on for ever.
    assert 2_900 <= shape["usage"]["cpu_ms"] < 3_000 + 30_000
    assert "of 3,000 used (set by --limits)" in shape["why"]


async def test_an_agent_for_which_nothing_is_left_is_not_started(visitor: SidecarProcess) -> None:
    ended = await run(visitor, "--limits", "cpu_ms=1,tool_calls=5", "--", "touch", "started")

    assert ended.status == 2
    assert "the agent was not started" in ended.told
    assert not (workplace(visitor) / "started").exists()


async def test_an_agent_that_dies_of_its_memory_limit_is_told_as_such(
    visitor: SidecarProcess,
) -> None:
    # It stays for a moment, for hosts where its memory is only looked at now and then.
    grow = program(
        visitor,
        "grow",
        "import time\nkept = [b'x' * 2**20 for _ in range(200)]\ntime.sleep(5)",
    )

    ended = await run(visitor, "--json", "--limits", "memory_mib=64", "--", PYTHON, grow)

    assert ended.status == EXIT_LIMIT, ended.told
    assert ended.shape["ended_by"] == "limit"
    assert "it went over its memory limit of 64 MiB" in ended.told
    (record, *_) = await records_of(visitor, ended.shape["session_id"])
    assert "memory limit of 64 MiB" in record["detail"]


async def test_an_agent_that_ends_for_want_of_processes_is_told_as_such(
    visitor: SidecarProcess,
) -> None:
    shell = "for each in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait"

    ended = await run(visitor, "--limits", "pids=4", "--", "sh", "-c", shell)

    assert ended.status != 0
    assert "processes" in ended.told


@pytest.mark.requirement("run.administrators-reach-agents")
async def test_an_agent_of_a_frozen_session_stands_still_until_it_is_resumed_or_killed(
    visitor: SidecarProcess, visitor_beats: Path
) -> None:
    agent = program(visitor, "beat", BEAT)

    with (
        anyio.fail_after(100),
        launching(visitor, "--session", "frozen", "--", PYTHON, agent) as process,
    ):
        await begun(visitor_beats)
        session = await session_named(visitor, "frozen")
        async with visitor.admin() as admin:
            await admin.post(f"sessions/{session['id']}/freeze")
            frozen = size(visitor_beats)
            await anyio.sleep(2)  # that nothing happens meanwhile is the point
            assert size(visitor_beats) - frozen <= 1
            await admin.post(f"sessions/{session['id']}/resume")
            while size(visitor_beats) <= frozen + 5:
                await anyio.sleep(0.02)
            await admin.post(f"sessions/{session['id']}/kill")
        status = await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)

    assert status == EXIT_SESSION
    assert "stands still" in told(visitor)
    assert "an administrator" in told(visitor)


@pytest.mark.requirement("run.leaves-nothing")
async def test_what_an_agent_left_running_ends_with_it(visitor: SidecarProcess) -> None:
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        open('daemon', 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "while not os.path.exists('daemon') or not open('daemon').read(): time.sleep(0.01)\n"
    )

    ended = await run(visitor, "--", PYTHON, program(visitor, "daemon", daemon))

    assert ended.status == 0, ended.told
    assert not is_alive(int((workplace(visitor) / "daemon").read_text()))


@pytest.mark.requirement("run.leaves-nothing")
async def test_an_agent_ends_with_its_launcher_and_is_charged_all_the_same(
    visitor: SidecarProcess, visitor_beats: Path
) -> None:
    shell = f"{PYTHON} {program(visitor, 'beat', BEAT)} & echo $! > child; wait"

    with (
        anyio.fail_after(100),
        launching(visitor, "--session", "orphan", "--", "sh", "-c", shell) as process,
    ):
        await begun(visitor_beats)
        child = int((workplace(visitor) / "child").read_text())
        process.kill()
        await gone(child)
    session = await session_named(visitor, "orphan")
    with anyio.fail_after(60):
        while not any(
            "launcher went away" in record["detail"]
            for record in await records_of(visitor, session["id"])
        ):
            await anyio.sleep(0.05)


@pytest.mark.requirement("run.leaves-nothing")
async def test_an_agent_ends_with_the_sidecar_that_governs_it(
    sidecar: SidecarProcess, beats: Path
) -> None:
    agent = program(sidecar, "beat", BEAT)

    with anyio.fail_after(100), launching(sidecar, "--", PYTHON, agent) as process:
        await begun(beats)
        sidecar.signal(signal.SIGKILL)
        status = await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        sidecar.wait()

    assert status == EXIT_SIDECAR
    assert "the sidecar went away" in told(sidecar)


async def test_a_signal_to_the_launcher_reaches_the_agent(
    visitor: SidecarProcess, visitor_beats: Path
) -> None:
    agent = program(visitor, "beat", BEAT)

    with anyio.fail_after(100), launching(visitor, "--", PYTHON, agent) as process:
        await begun(visitor_beats)
        process.send_signal(signal.SIGTERM)
        status = await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)

    assert status == 128 + signal.SIGTERM


@pytest.mark.requirement("run.task-is-trusted")
async def test_the_task_of_an_agent_is_said_once_by_whoever_starts_it(
    visitor: SidecarProcess,
) -> None:
    words = ("--session", "task", "--task", "Tell Ada the time.", "--", "true")

    first, second = await run(visitor, *words), await run(visitor, *words)

    assert first.status == 0, first.told
    assert second.status == 2
    assert "task was said before" in second.told


async def test_without_a_sidecar_the_error_says_how_to_start_one(
    sidecar: SidecarProcess,
) -> None:
    await anyio.to_thread.run_sync(lambda: (sidecar.signal(signal.SIGTERM), sidecar.wait()))

    ended = await run(sidecar, "--", "true")

    assert ended.status == 2
    assert "`flyball up`" in ended.told


@pytest.mark.parametrize(("program_name", "status"), [("/no/such/program", 127), ("/", 126)])
async def test_a_program_that_cannot_be_run_has_the_status_that_shells_give_it(
    visitor: SidecarProcess, program_name: str, status: int
) -> None:
    ended = await run(visitor, "--", program_name)

    assert ended.status == status, ended.told


@pytest.mark.parametrize(
    "sidecar",
    ['[[rule]]\nname = "no-agents"\ntool = "agent_run"\nallow = false\n'],
    indirect=True,
)
async def test_a_rule_can_forbid_agents(sidecar: SidecarProcess) -> None:
    ended = await run(sidecar, "--", "touch", "started")

    assert ended.status == 2
    assert "'no-agents'" in ended.told
    assert "another tool" not in ended.told
    assert not (workplace(sidecar) / "started").exists()
