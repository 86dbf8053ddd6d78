"""Several worker processes behind one port, with one keeper that has the ledger."""

import json
import os
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from scenarios.crews import at, call, posted, processes_of, reason_of, result_of
from scenarios.process import SidecarProcess, appears, descendants, is_alive, text_of

from governor.ids import PrincipalId
from runtime.clock import SystemClock
from runtime.workers.places import worker_folder
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import SESSIONS as SESSIONS_ERA
from tests.tool_gateway.protocol.stage import upstream
from tool_gateway.guards.gate import ReasoningGate

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WORKERS = 3
ROOM = 8
CONFIG = f"""
[[budget]]
id = "each"
scope = "session"
limits = {{ tool_calls = {ROOM} }}

[[rule]]
name = "think"
tool = "worker__big"
gate = {{ hops = 2 }}
"""


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A sidecar of several workers, for tests that leave it whole or see it whole again."""
    with _started(tmp_path_factory.mktemp("crew"), CONFIG) as process:
        yield process


@pytest.fixture
def own_crew(tmp_path: Path) -> Iterator[SidecarProcess]:
    """A sidecar of no more workers than make several, for a test that ends it."""
    with _started(tmp_path, CONFIG, workers=2) as process:
        yield process


class _started:  # noqa: N801 - a context manager
    def __init__(self, folder: Path, extra: str, workers: int = WORKERS) -> None:
        self.process = SidecarProcess(folder=folder, extra=extra, workers=workers)

    def __enter__(self) -> SidecarProcess:
        self.process.start()
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.stop()


def test_each_worker_has_a_state_directory_that_no_command_can_enter(crew: SidecarProcess) -> None:
    folders = [worker_folder(crew.state, worker + 1) for worker in range(WORKERS)]

    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * WORKERS


@pytest.mark.requirement("workers.one-ledger")
async def test_exactly_k_of_4k_calls_run_that_race_through_all_workers(
    crew: SidecarProcess,
) -> None:
    told: list[str] = []

    async def one(number: int) -> None:
        async with at(crew, number % WORKERS + 1) as client:
            told.append(reason_of(await call(client, session="race", text=str(number))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4 * ROOM):
                tasks.start_soon(one, number)

    assert Counter(told) == {"": ROOM, "budget_exhausted": 3 * ROOM}


@pytest.mark.requirement("workers.one-ledger")
async def test_a_caller_that_names_no_session_is_in_one_at_whichever_worker(
    crew: SidecarProcess,
) -> None:
    told = []
    for number in range(2 * ROOM):
        async with at(crew, number % WORKERS + 1) as client:
            told.append(reason_of(await call(client, text=str(number))))

    assert Counter(told) == {"": ROOM, "budget_exhausted": ROOM}


@pytest.mark.requirement("workers.sessions-find-home")
async def test_a_session_of_one_worker_is_served_by_every_other(crew: SidecarProcess) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with at(crew, 1) as first, at(crew, 2) as second, at(crew, 3) as third:
        opened = await first.post("/mcp", json=hello)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        session["mcp-protocol-version"] = "2025-06-18"
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await second.post("/mcp", json=told, headers=session)
        call_it = {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {"name": "worker__echo", "arguments": {"text": "over there"}},
        }
        answers = [await one.post("/mcp", json=ping, headers=session) for one in (second, third)]
        called = await third.post("/mcp", json=call_it, headers=session)
        ended = await second.delete("/mcp", headers=session)
        gone = await first.post("/mcp", json=ping, headers=session)
    async with crew.admin() as admin:
        named = {one["name"] for one in (await admin.get("sessions")).json()["items"]}

    assert session["mcp-session-id"].endswith("-w1")
    assert [answer.status_code for answer in answers] == [200, 200]
    assert "over there" in called.text
    assert called.headers["mcp-session-id"] == session["mcp-session-id"]
    assert (ended.status_code, gone.status_code) == (200, 404)
    assert session["mcp-session-id"] in named


@pytest.mark.requirement("workers.sessions-find-home")
async def test_clients_of_both_older_transports_are_served_on_whatever_connections_they_open(
    crew: SidecarProcess,
) -> None:
    headers = {"Authorization": f"Bearer {crew.token('agent')}"}
    url = crew.urls["agents"]
    # A connection for each request: they are accepted by one worker and another.
    limits = httpx2.Limits(max_keepalive_connections=0)
    echoed = []
    with anyio.fail_after(60):
        async with (
            httpx2.AsyncClient(headers=headers, limits=limits, trust_env=False, timeout=60) as http,
            Client(
                streamable_http_client(url, http_client=http), mode="legacy", cache=None
            ) as client,
        ):
            for number in range(6):
                result = await client.call_tool("worker__echo", {"text": f"new {number}"})
                echoed.append(text_of(result))
        events = url.removesuffix("/mcp") + "/sse"
        in_session = {**headers, "Flyball-Session": "old"}
        async with Client(
            sse_client(events, headers=in_session), mode="legacy", cache=None
        ) as client:
            for number in range(6):
                result = await client.call_tool("worker__echo", {"text": f"old {number}"})
                echoed.append(text_of(result))

    assert [one.partition("\n")[0] for one in echoed] == [
        *(f"new {number}" for number in range(6)),
        *(f"old {number}" for number in range(6)),
    ]


@pytest.mark.requirement("workers.sessions-find-home")
async def test_a_question_that_waits_at_one_worker_is_answered_through_another(
    tmp_path: Path,
) -> None:
    # A server of the era with sessions asks in the middle of a call, which is then parked.
    async with upstream(Everything(), versions=SESSIONS_ERA) as spec:
        extra = f'[[upstream]]\nname = "one"\nurl = "{spec.url}"\n'
        crew = SidecarProcess(folder=tmp_path, extra=extra, workers=2)
        await anyio.to_thread.run_sync(crew.start)
        try:
            async with at(crew, 1) as first, at(crew, 2) as second:
                asked = await call(first, "one__ask_name", session="s", can={"elicitation": {}})
                [key] = asked["inputRequests"]
                answer = {"action": "accept", "content": {"name": "Ada"}}
                retry = {
                    "requestState": asked["requestState"],
                    "inputResponses": {key: answer},
                }
                told = await call(
                    second, "one__ask_name", session="s", can={"elicitation": {}}, also=retry
                )
        finally:
            await anyio.to_thread.run_sync(crew.stop)

    assert asked["requestState"].startswith("flyball.w1.")
    assert told["content"][0]["text"] == "hello Ada"


@pytest.mark.requirement("workers.single-use")
async def test_a_challenge_is_answered_once_over_all_workers(crew: SidecarProcess) -> None:
    async with at(crew, 1) as first, at(crew, 2) as second, at(crew, 3) as third:
        denied = await call(first, "worker__big", session="thinking", lines=1)
        challenge = denied["_meta"]["flyball/gate"]["challenge"]
        # Only the key tells the answer without thinking.
        gate = ReasoningGate(key=(crew.state / "gate.key").read_bytes(), clock=SystemClock())
        read = gate._read(challenge, PrincipalId("agent"))
        assert read is not None
        answer = {"challenge": challenge, "answer": gate._puzzle(read[0], read[3]).answer}
        taken = await call(second, "governor_answer", session="thinking", **answer)
        again = await call(third, "governor_answer", session="thinking", **answer)
        served = await call(third, "worker__big", session="thinking", lines=1)

    assert reason_of(denied) == "gate_required"
    assert taken["content"][0]["text"].startswith("Right")
    assert again["isError"]
    assert reason_of(served) == ""


@pytest.mark.requirement("workers.changes-arrive")
async def test_what_an_administrator_changes_reaches_every_worker(crew: SidecarProcess) -> None:
    async with crew.admin() as admin:
        ada = {"id": "ada", "tenant": "default", "name": "Ada", "role": "agent"}
        made = await admin.post("principals", json=ada)
        assert made.status_code == 201, made.text
        token = (await admin.post("principals/ada/tokens", json={})).json()
        headers = {"Authorization": f"Bearer {token['secret']}"}
        before = [await _status(crew, worker, headers) for worker in range(1, WORKERS + 1)]
        revoked = await admin.delete(f"principals/ada/tokens/{token['id']}")
        assert revoked.status_code == 204, revoked.text
        with anyio.fail_after(60):
            for worker in range(1, WORKERS + 1):
                while await _status(crew, worker, headers) != 401:
                    await anyio.sleep(0.05)

    assert before == [200] * WORKERS


async def _status(crew: SidecarProcess, worker: int, headers: dict[str, str]) -> int:
    async with at(crew, worker) as client:
        return (await client.get("/v1/models", headers=headers)).status_code


@pytest.mark.requirement("workers.changes-arrive")
async def test_ending_a_session_stops_its_call_at_whichever_worker(
    crew: SidecarProcess, tmp_path: Path
) -> None:
    started, ended = tmp_path / "started", []

    async def sleeper() -> None:
        async with at(crew, 2) as client:
            more = {"seconds": 60, "started": str(started)}
            ended.append(await call(client, "worker__sleep", session="long", **more))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, crew.admin() as admin:
            tasks.start_soon(sleeper)
            await appears(started)
            found = (await admin.get("sessions")).json()["items"]
            [session] = [one["id"] for one in found if one["name"] == "long"]
            killed = await admin.post(f"sessions/{session}/kill")
            assert killed.status_code == 200, killed.text

    assert "ended" in json.dumps(ended)


@pytest.mark.requirement("workers.changes-arrive")
async def test_a_changed_file_is_taken_over_by_every_worker_at_the_word_of_the_administrator(
    crew: SidecarProcess,
) -> None:
    file = crew.folder / "flyball.toml"
    text = await anyio.Path(file).read_text(encoding="utf-8")
    rule = '\n[[rule]]\nname = "no echo"\ntool = "worker__echo"\nallow = false\n'
    await anyio.Path(file).write_text(text + rule, encoding="utf-8")
    try:
        async with crew.admin() as admin:
            taken = await admin.post("reload")
            assert taken.status_code == 200, taken.text
        with anyio.fail_after(60):
            for worker in range(1, WORKERS + 1):
                async with at(crew, worker) as client:
                    while reason_of(await call(client, session=f"r{worker}")) != "policy_denied":
                        await anyio.sleep(0.1)
    finally:
        await anyio.Path(file).write_text(text, encoding="utf-8")
    crew.signal(signal.SIGHUP)
    with anyio.fail_after(60):
        for worker in range(1, WORKERS + 1):
            async with at(crew, worker) as client:
                while reason_of(await call(client, session=f"a{worker}")):
                    await anyio.sleep(0.1)


@pytest.mark.requirement("workers.deny-without-ledger")
async def test_calls_are_denied_while_the_ledger_is_away_and_run_when_it_is_back(
    crew: SidecarProcess,
) -> None:
    async with at(crew, 1) as client:
        before = await call(client, session="bereft")
        [keeper] = processes_of(crew, "keeper")
        # Who would start it again stands still until a call has met that it is away.
        crew.signal(signal.SIGSTOP)
        try:
            os.kill(keeper, signal.SIGKILL)
            told = [await _why_not(client, "bereft")]
        finally:
            crew.signal(signal.SIGCONT)
        with anyio.fail_after(60):
            while reason := await _why_not(client, "bereft"):
                told.append(reason)
                await anyio.sleep(0.02)
    async with crew.admin() as admin:
        found = (await admin.get("sessions")).json()["items"]
    [session] = [one["id"] for one in found if one["name"] == "bereft"]
    held = [one["reserved"] for one in await crew.balances() if session in json.dumps(one)]
    # The others hear of it in their own time, and whoever comes next finds them whole.
    with anyio.fail_after(60):
        for worker in range(1, WORKERS + 1):
            async with at(crew, worker) as client:
                while await _why_not(client, f"bereft {worker}"):
                    await anyio.sleep(0.05)

    assert reason_of(before) == ""
    assert set(told) <= {"ledger_unavailable", "urn:flyball:problem:store-unavailable"}
    assert held == [0]


async def _why_not(client: httpx.AsyncClient, session: str) -> str:
    """Return why a call did not run; who calls is known without the store for a second only."""
    answer = await posted(client, session=session)
    if answer.status_code == 503:
        return str(answer.json()["type"])
    return reason_of(result_of(answer))


@pytest.mark.requirement("workers.restart")
async def test_a_worker_that_is_killed_is_started_again_and_others_serve_meanwhile(
    crew: SidecarProcess,
) -> None:
    before = processes_of(crew, "worker")
    async with at(crew, 1) as client:
        opened = await call(client, session="survived")
    [keeper] = processes_of(crew, "keeper")
    os.kill(before[0], signal.SIGKILL)
    meanwhile = []
    for _ in range(ROOM - 1):
        async with at(crew) as client:
            meanwhile.append(reason_of(await call(client, session="survived")))
    with anyio.fail_after(60):
        while len(after := processes_of(crew, "worker")) < WORKERS or before[0] in after:
            await anyio.sleep(0.05)
        for worker in range(1, WORKERS + 1):
            while not await _answers(crew, worker):
                await anyio.sleep(0.05)

    assert reason_of(opened) == ""
    assert meanwhile == [""] * (ROOM - 1)
    assert processes_of(crew, "keeper") == [keeper]


async def _answers(crew: SidecarProcess, worker: int) -> bool:
    try:
        async with at(crew, worker) as client:
            return (await client.get("/v1/models")).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.requirement("workers.no-orphans")
async def test_nothing_is_left_when_the_parent_is_killed(own_crew: SidecarProcess) -> None:
    assert own_crew.process is not None
    below = descendants(own_crew.process.pid)
    own_crew.signal(signal.SIGKILL)
    await anyio.to_thread.run_sync(own_crew.wait)

    with anyio.fail_after(60):
        while left := [pid for pid in below if is_alive(pid)]:
            await anyio.sleep(0.05)

    assert len(below) > 1 + own_crew.workers
    assert left == []


@pytest.mark.requirement("workers.one-ledger")
async def test_on_a_server_the_workers_write_by_themselves_on_one_budget(
    tmp_path: Path, database: str
) -> None:
    crew = SidecarProcess(
        folder=tmp_path,
        extra=CONFIG,
        workers=2,
        env={**os.environ, "FLYBALL_STORE_URL": database},
    )
    await anyio.to_thread.run_sync(crew.start)
    told: list[str] = []

    async def one(number: int) -> None:
        async with at(crew, number % 2 + 1) as client:
            told.append(reason_of(await call(client, session="race", text=str(number))))

    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(4 * ROOM):
                    tasks.start_soon(one, number)
        told_unnamed = []
        for number in range(ROOM + 2):
            async with at(crew, number % 2 + 1) as client:
                told_unnamed.append(reason_of(await call(client, text=str(number))))
        balances = {one["unit"]: one for one in await crew.balances()}
    finally:
        await anyio.to_thread.run_sync(crew.stop)

    assert Counter(told) == {"": ROOM, "budget_exhausted": 3 * ROOM}
    assert Counter(told_unnamed) == {"": ROOM, "budget_exhausted": 2}
    assert balances["tool_calls"]["reserved"] == 0
    assert not (crew.state / "flyball.db").exists()


async def test_sigterm_lets_a_call_end_at_its_worker_and_leaves_no_process(
    own_crew: SidecarProcess, tmp_path: Path
) -> None:
    assert own_crew.process is not None
    below, started, answers = descendants(own_crew.process.pid), tmp_path / "started", []

    async def sleeper() -> None:
        async with at(own_crew, 2) as client:
            more = {"seconds": 1.5, "started": str(started)}
            answers.append(await call(client, "worker__sleep", session="s", **more))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper)
            await appears(started)
            own_crew.signal(signal.SIGTERM)
        code = await anyio.to_thread.run_sync(own_crew.wait)

    assert code == 0
    assert [one["content"][0]["text"] for one in answers] == ["slept"]
    assert [pid for pid in below if is_alive(pid)] == []
