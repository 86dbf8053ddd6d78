"""`flyball sessions` and an agent's report of its outcome, against a real sidecar."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from memory_store.productivity import Grouping
from runtime.cli.money import dollars
from runtime.cli.sessions import GROUPINGS
from runtime.configuration.listen import Listen
from runtime.configuration.model import Config, TurnTermsTable
from runtime.listeners import Listeners
from runtime.serving import serving
from tests.runtime.cli.conftest import Ended, Flyball

pytestmark = pytest.mark.anyio

STATE = "state"
Sessions = Callable[..., Ended]


@pytest.fixture
async def sidecar(folder: Path) -> AsyncIterator[Listeners]:
    """A sidecar that limits turns; the configuration beside it names the port that it got."""
    config = Config(
        listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"),
        turns=TurnTermsTable(mode="fixed", turns=2),
    )
    async with serving(config, state_dir=folder / STATE) as (_, listeners):
        admin = listeners.admin_url.removeprefix("http://")
        (folder / "flyball.toml").write_text(f'[listen]\nadmin = "{admin}"\n', encoding="utf-8")
        yield listeners


@pytest.fixture
def sessions(flyball: Flyball) -> Sessions:
    async def run(*words: str) -> Ended:
        with anyio.fail_after(60):
            return await to_thread.run_sync(lambda: flyball("sessions", *words, "--state", STATE))

    return run


def client_of(sidecar: Listeners, folder: Path, who: str) -> httpx.AsyncClient:
    token = (folder / STATE / f"{who}.token").read_text(encoding="utf-8").strip()
    return httpx.AsyncClient(
        base_url=sidecar.agents_url if who == "agent" else sidecar.admin_url,
        headers={"Authorization": f"Bearer {token}", "Flyball-Session": "run/1"},
        trust_env=False,
        timeout=60,
    )


async def call(client: httpx.AsyncClient, turn: str) -> dict[str, object]:
    """Call a tool over bare JSON-RPC and return the result."""
    answer = await client.post(
        "/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "memory_read",
                "arguments": {"index": "arc_none"},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "flyball/turn": turn,
                    "flyball/task_class": "reading",
                },
            },
        },
        headers={
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "memory_read",
        },
    )
    assert answer.status_code == 200, answer.text
    text = answer.text
    body = json.loads(text if text.startswith("{") else text.split("data: ", 1)[1].split("\n")[0])
    return body["result"]


@pytest.mark.requirement("session.outcome-is-kept")
async def test_turns_and_outcomes_are_listed(
    sidecar: Listeners, folder: Path, sessions: Sessions
) -> None:
    async with client_of(sidecar, folder, "agent") as agent:
        results = [await call(agent, turn) for turn in ("t1", "t2", "t3")]
        reported = await agent.post("/sessions/v1/run%2F1/outcome", json={"success": True})

    (item,) = json.loads((await sessions("--json")).out)["items"]
    told = (await sessions()).out

    assert results[1]["_meta"]["flyball/turns"]["remaining"] == 0
    assert results[2]["_meta"]["flyball/denial"]["reason"] == "turn_limit"
    assert (reported.status_code, reported.json()["success"]) == (200, True)
    assert (item["session"]["turns_used"], item["session"]["turns_limit"]) == (2, 2)
    assert (item["session"]["task_class"], item["session"]["success"]) == ("reading", True)
    assert (item["tool_calls"], item["solved"]) == (2, 1)
    assert "agent/run/1" in told
    assert "  tool calls  " in told.splitlines()[0]
    assert item["session"]["id"] in told
    assert "2/2" in told
    assert all(len(line) <= 160 for line in told.splitlines())


async def test_an_administrator_extends_a_session_and_it_goes_on(
    sidecar: Listeners, folder: Path
) -> None:
    async with (
        client_of(sidecar, folder, "agent") as agent,
        client_of(sidecar, folder, "admin") as admin,
    ):
        for turn in ("t1", "t2", "t3"):
            await call(agent, turn)
        listed = await admin.get("/admin/v1/sessions")
        path = f"/admin/v1/sessions/{listed.json()['items'][0]['id']}"
        given = await admin.post(f"{path}/extensions", json={"turns": 1, "reason": "go on"})
        went_on, stopped = await call(agent, "t3"), await call(agent, "t4")
        shown = (await admin.get(path)).json()["turns"]
        metrics = (await admin.get("/metrics")).text

    assert (given.status_code, given.json()["limit"]) == (201, 3)
    assert "flyball/denial" not in went_on["_meta"]
    assert stopped["_meta"]["flyball/denial"]["reason"] == "turn_limit"
    assert (shown["used"], shown["limit"], shown["was_cut"]) == (3, 3, True)
    assert shown["extensions"][0]["reason"] == "go on"
    assert 'reason="turn_limit"' in metrics


async def test_agents_report_on_their_own_sessions_in_words_that_are_understood(
    sidecar: Listeners, folder: Path
) -> None:
    async with client_of(sidecar, folder, "agent") as agent:
        await call(agent, "t1")
        foreign = await agent.post("/sessions/v1/nobody/outcome", json={"success": True})
        wrong = await agent.post("/sessions/v1/run%2F1/outcome", json={"success": "yes"})
        broken = await agent.post("/sessions/v1/run%2F1/outcome", content=b"{")
        typo = await agent.post("/sessions/v1/run%2F1/outcome", json={"sucess": True})

    assert (foreign.status_code, foreign.json()["type"]) == (404, "urn:flyball:problem:not-found")
    assert (wrong.status_code, broken.status_code, typo.status_code) == (422, 422, 422)
    assert wrong.json()["errors"][0]["field"] == "success"


async def test_an_agent_cannot_report_on_a_session_of_another(
    sidecar: Listeners, folder: Path
) -> None:
    async with (
        client_of(sidecar, folder, "agent") as agent,
        client_of(sidecar, folder, "admin") as admin,
    ):
        await call(agent, "t1")
        session_id = (await admin.get("/admin/v1/sessions")).json()["items"][0]["id"]
        eve = {"id": "eve", "tenant": "default", "name": "Eve", "role": "agent"}
        made = await admin.post("/admin/v1/principals", json=eve)
        token = (await admin.post("/admin/v1/principals/eve/tokens", json={})).json()["secret"]
        path = f"/sessions/v1/{session_id}/outcome"
        theirs = {"Authorization": f"Bearer {token}"}
        foreign = await agent.post(path, json={"success": True}, headers=theirs)
        own = await agent.post(path, json={"success": True})

    assert made.status_code == 201
    assert (foreign.status_code, own.status_code) == (404, 200)


async def test_the_other_groupings_have_their_own_tables(
    sidecar: Listeners, folder: Path, sessions: Sessions
) -> None:
    nothing = (await sessions("--by", "tool")).out
    async with client_of(sidecar, folder, "agent") as agent:
        await call(agent, "t1")

    tables = {by: (await sessions("--by", by)).out for by in ("agent", "tool", "task_class")}

    assert nothing == "Nothing was called yet.\n"
    assert tables["tool"].splitlines()[1].startswith("memory_read")
    assert tables["task_class"].splitlines()[1].startswith("reading")
    assert "estimated from CPU time" in tables["agent"]


@pytest.mark.usefixtures("sidecar")
async def test_who_freezes_a_session_that_is_not_there_is_told_what_lists_them(
    sessions: Sessions,
) -> None:
    for deed in ("--freeze", "--resume", "--kill"):
        ended = await sessions("ses_nosuch", deed)

        assert ended.status == 2
        assert "ses_nosuch" in ended.err
        assert "`flyball sessions` lists " in ended.err
        assert "shows how it stands" not in ended.err


async def test_a_limit_that_is_no_number_is_told(sessions: Sessions) -> None:
    ended = await sessions("--limit", "0")

    assert ended.status == 2
    assert "not a whole number from 1 on" in ended.err


@pytest.mark.parametrize(
    ("microusd", "shown"),
    [(30, "$0.000030"), (0, "$0.000000"), (1_234_567, "$1.2346"), (None, "-")],
)
def test_a_cost_that_is_small_is_not_shown_as_nothing(microusd: int | None, shown: str) -> None:
    assert dollars(microusd) == shown


def test_sessions_are_grouped_by_the_words_of_the_store() -> None:
    assert list(GROUPINGS) == [grouping.value for grouping in Grouping]
