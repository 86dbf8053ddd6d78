"""`flyball approve` against a real sidecar with a call that waits."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from runtime.configuration.listen import Listen
from runtime.configuration.model import Config, Rule
from runtime.listeners import Listeners
from runtime.serving import serving
from tests.runtime.cli.conftest import Ended, Flyball

pytestmark = pytest.mark.anyio

STATE = "state"
ASKED = Rule(name="aské", tool="governor_status", approve=True, approval_wait_s=0)


@pytest.fixture
async def sidecar(folder: Path) -> AsyncIterator[Listeners]:
    """A sidecar that asks before it shows its budgets; the file beside it names its port."""
    config = Config(listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"), rule=(ASKED,))
    async with serving(config, state_dir=folder / STATE) as (_, listeners):
        admin = listeners.admin_url.removeprefix("http://")
        (folder / "flyball.toml").write_text(f'[listen]\nadmin = "{admin}"\n', encoding="utf-8")
        yield listeners


@pytest.fixture
def approve(flyball: Flyball) -> Callable[..., Ended]:
    """Runs `flyball approve`, in JSON or in words, beside the sidecar that it talks to."""

    async def run(*words: str, as_json: bool = True) -> Ended:
        more = ("--json",) if as_json else ()
        with anyio.fail_after(60):
            return await to_thread.run_sync(
                lambda: flyball("approve", *words, "--state", STATE, *more)
            )

    return run


async def call(sidecar: Listeners, folder: Path) -> dict[str, object]:
    """Call the tool over MCP and return the result."""
    secret = (folder / STATE / "agent.token").read_text(encoding="utf-8").strip()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(
            f"{sidecar.agents_url}/mcp",
            headers={
                "Authorization": f"Bearer {secret}",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": "governor_status",
                "Flyball-Session": "s",
            },
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "governor_status",
                    "arguments": {},
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                        "io.modelcontextprotocol/clientCapabilities": {},
                    },
                },
            },
        )
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:"))
    body: dict[str, dict[str, object]] = json.loads(text)
    assert "result" in body, body
    return body["result"]


async def test_a_call_that_waits_is_shown_let_run_and_runs_once(
    sidecar: Listeners, folder: Path, approve: Callable[..., Ended]
) -> None:
    waiting = await call(sidecar, folder)
    assert waiting["isError"] is True
    assert waiting["_meta"]["flyball/denial"]["reason"] == "approval_pending"

    listed = json.loads((await approve()).out)
    (item,) = listed["items"]
    in_words = (await approve(as_json=False)).out
    decided = json.loads((await approve(item["id"], "--reason", "fine")).out)

    assert (decided["state"], decided["reason"]) == ("approved", "fine")
    first, second, third, yes, no = in_words.splitlines()
    assert first.startswith(f"{item['id']}  agent  governor_status  until 20")
    assert second == "    session s; asked because rule ask\\xe9 wants a person's yes"
    assert third == f"    {item['arguments']}"
    assert yes == f"Yes: flyball approve {item['id']}"
    assert no == f"No:  flyball approve {item['id']} --reject --reason TEXT"
    assert (await call(sidecar, folder))["isError"] is False
    assert (await call(sidecar, folder))["isError"] is True


async def test_a_call_is_refused_with_a_reason(
    sidecar: Listeners, folder: Path, approve: Callable[..., Ended]
) -> None:
    await call(sidecar, folder)
    (item,) = json.loads((await approve()).out)["items"]

    refused = await approve(item["id"], "--reject", "--reason", "not now", as_json=False)
    again = await approve(item["id"], as_json=False)

    assert refused.out == f"{item['id']} is rejected.\n"
    assert again.status == 2
    assert f"{item['id']} is already refused by admin at 20" in again.err
    assert (await approve(as_json=False)).out == "No call waits for a person.\n"


@pytest.mark.usefixtures("sidecar")
async def test_an_answer_without_a_call_is_refused(approve: Callable[..., Ended]) -> None:
    ended = await approve("--reject", as_json=False)

    assert ended.status == 2
    assert "which call?" in ended.err
