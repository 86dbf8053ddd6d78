"""A sidecar of two workers on which an agent has had a session worth telling."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import httpx
from scenarios.model import TWO_TIERS, a_model
from scenarios.process import SidecarProcess

from runtime.workers.places import worker_socket
from tests.browser.browsing import SECONDS_MAX, Console

WORKERS = 2
SESSION = "fix-the-parser"
# What an agent may call its session; header values hold it.
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
MIB = 1024 * 1024
RULES = """
[[budget]]
id = "each-session"
scope = "session"
limits = { tool_calls = 100, cost_microusd = 2000000 }
window = { every_s = 316224000 }

[[rule]]
name = "python"
tool = "python_run"
isolation = "best_effort"
limits = { memory_mib = 256, wall_ms = 60000 }

[[rule]]
name = "ask-first"
tool = "worker__big"
approve = true
approval_wait_s = 0

[[rule]]
name = "no-crash"
tool = "worker__die"
allow = false

[[rule]]
name = "long"
tool = "worker__echo"
archive_above_bytes = 1024

[default]
cost_microusd = 12500
"""
WORK = f"""
import time
held = b"x" * {64 * MIB}
while time.process_time() < 0.4:
    pass
print(len(held))
"""
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def storied(folder: Path) -> Iterator[Console]:
    """Yield the console of a sidecar whose agent has worked in two turns, on both workers."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(a_model()) as port,
    ):
        extra = TWO_TIERS.format(port=port) + RULES
        crew = SidecarProcess(folder=folder, extra=extra, workers=WORKERS)
        crew.start()
        try:
            _work(crew)
            yield Console(sidecar=crew)
        finally:
            crew.stop()


def session_id(console: Console, name: str = SESSION) -> str:
    """Return the id of the session that the agent calls so."""
    with console.admin() as admin:
        found = admin.get("sessions").json()["items"]
    return next(str(one["id"]) for one in found if one["name"] == name)


def story_of(console: Console) -> dict[str, Any]:
    """Return the timeline of the session."""
    with console.admin() as admin:
        found: dict[str, Any] = admin.get(f"sessions/{session_id(console)}/timeline").json()
    return found


def _work(crew: SidecarProcess) -> None:
    _ask_model(crew, "Say hello.", turn="read")
    _call(crew, "worker__echo", turn="read", text="a long line " * 400)
    _call(crew, "python_run", turn="read", worker=1, code=WORK)
    _call(crew, "worker__die", turn="read")
    _ask_model(crew, "Now write the test, and explain each step of it in detail.", turn="write")
    _call(crew, "python_run", turn="write", worker=2, code=WORK)
    _call(crew, "worker__big", turn="write", lines=3)
    for number in range(4):
        _call(crew, "worker__echo", session=HOSTILE, turn=f"turn-{number}", text="fine")


def _headers(crew: SidecarProcess, session: str, turn: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {crew.token('agent')}",
        "Flyball-Session": session,
        "Flyball-Turn": turn,
    }


def _ask_model(crew: SidecarProcess, words: str, *, turn: str) -> None:
    answer = httpx.post(
        crew.urls["agents"].removesuffix("/mcp") + "/v1/chat/completions",
        headers=_headers(crew, SESSION, turn),
        json={"model": "auto", "messages": [{"role": "user", "content": words}]},
        timeout=SECONDS_MAX,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text


def _call(
    crew: SidecarProcess,
    tool: str,
    *,
    session: str = SESSION,
    turn: str,
    worker: int | None = None,
    **arguments: Any,
) -> None:
    """Call a tool, of a worker by its own socket, else of whichever accepts."""
    transport = (
        httpx.HTTPTransport()
        if worker is None
        else httpx.HTTPTransport(uds=str(worker_socket(crew.state, worker)))
    )
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": _META},
    }
    headers = _headers(crew, session, turn) | {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    with httpx.Client(transport=transport, trust_env=False, timeout=SECONDS_MAX) as client:
        answer = _once_listed(lambda: client.post(crew.urls["agents"], json=asked, headers=headers))
    assert answer.status_code == 200, answer.text


def _once_listed(send: Callable[[], httpx.Response]) -> httpx.Response:
    """Return the answer to a call, which is sent again while its server is still starting.

    Each worker has servers of its own, and serves without those that are not up after some seconds.
    """
    end = time.monotonic() + SECONDS_MAX
    while True:
        answer = send()
        if "unknown tool" not in answer.text or time.monotonic() > end:
            return answer
        time.sleep(0.1)
