"""A session of a sidecar with several workers, told from its admin interface."""

from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from scenarios.model import TWO_TIERS, a_model
from scenarios.process import SidecarProcess

from runtime.workers.places import worker_socket

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WORKERS = 2
MIB = 1024 * 1024
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
RULE = """
[[rule]]
name = "python"
tool = "python_run"
isolation = "best_effort"
limits = { memory_mib = 256, wall_ms = 60000 }
"""
WORK = """
import time
held = b"x" * (64 << 20)
while time.process_time() < 0.3:
    pass
print(len(held))
"""


async def _run_python(crew: SidecarProcess, worker: int, turn: str) -> None:
    """Have one worker run a command of the session."""
    transport = httpx.AsyncHTTPTransport(uds=str(worker_socket(crew.state, worker)))
    headers = {
        "Authorization": f"Bearer {crew.token('agent')}",
        "Accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "python_run",
        "Flyball-Session": "story",
        "Flyball-Turn": turn,
    }
    params = {"name": "python_run", "arguments": {"code": WORK}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=60) as client:
        answer = await client.post(crew.urls["agents"], headers=headers, json=message)
    assert answer.status_code == 200, answer.text
    assert str(64 * MIB) in answer.text, answer.text


async def _ask_model(crew: SidecarProcess) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(
            crew.urls["agents"].removesuffix("/mcp") + "/v1/chat/completions",
            headers={
                "Authorization": f"Bearer {crew.token('agent')}",
                "Flyball-Session": "story",
                "Flyball-Turn": "first",
            },
            json={"model": "auto", "messages": [{"role": "user", "content": "Say hello."}]},
        )
    assert answer.status_code == 200, answer.text


async def _asked(admin: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    answer = await admin.request(method, path, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.requirement("curves.workers")
@pytest.mark.requirement("timeline.live")
async def test_a_session_over_several_workers_is_told_with_curves_tiers_and_a_preview(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with anyio.fail_after(240):
        async with a_model() as port:
            crew = SidecarProcess(
                folder=tmp_path_factory.mktemp("story"),
                extra=TWO_TIERS.format(port=port) + RULE,
                workers=WORKERS,
            )
            await anyio.to_thread.run_sync(crew.start)
            try:
                await _ask_model(crew)
                for worker in range(1, WORKERS + 1):
                    await _run_python(crew, worker, turn="second")
                await _tell(crew)
            finally:
                await anyio.to_thread.run_sync(crew.stop)


async def _tell(crew: SidecarProcess) -> None:
    async with crew.admin() as admin:
        sessions = (await _asked(admin, "GET", "sessions"))["items"]
        session = next(one for one in sessions if one["name"] == "story")
        story = await _asked(admin, "GET", f"sessions/{session['id']}/timeline")

        calls = [one for one in story["items"] if one["kind"] == "call"]
        assert [one["call"]["kind"] for one in calls] == ["model", "tool", "tool"]
        assert calls[0]["model"]["tier"] in {"low", "high"}
        assert calls[0]["model"]["why"]
        assert [(one["turn"], one["calls"]) for one in story["turns"]] == [
            ("first", 1),
            ("second", 2),
        ]
        for one in calls[1:]:
            assert one["call"]["has_curve"]
            curve = await _asked(admin, "GET", f"calls/{one['call']['id']}/curve")
            assert curve["memory_peak_bytes"] > 32 * MIB
            assert curve["by"]
            assert curve["points"][-1]["at_ms"] > 250
            assert curve["points"][-1]["cpu_ms"] > 0

        new = {"tenant": session["tenant"], "scope": "session", "limits": {"tool_calls": 1}}
        preview = await _asked(admin, "POST", "budgets/preview", {"new": new})
        after = preview["after"]
        assert (after["calls"], after["denied"]) == (3, 1), after
