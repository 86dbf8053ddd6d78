"""What is remembered of sessions is bounded, whatever remembers it."""

import functools
import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from runtime.configuration.load import parse_config
from runtime.wiring import open_sidecar
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import upstream

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SESSIONS = 1_600
AT_ONCE = 8
# What each part may remember in this test, and what a growing container may have beside it.
BOUND = 64
ROOM = 300
CACHE_MAX = 20_000
CONTAINERS = (dict, list, set, deque)
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# The bounds of what is remembered of sessions, by their names in the modules of the house.
BOUNDS = {"SESSIONS_MAX", "_KEPT_MAX", "_CHARTS_MAX", "_PLANS_MAX", "_KNOWN_MAX", "SCOPES_MAX"}
CONFIG = """
[auth]
mode = "none"
[turns]
mode = "fixed"
turns = 10
[flow]
enabled = true
[[budget]]
id = "each"
scope = "session"
limits = { tool_calls = 100, wall_ms = 1000000 }
[[rule]]
name = "all"
cache = { ttl_s = 60 }
[[upstream]]
name = "one"
url = "URL"
"""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every part remember little, so that what has no bound stands out."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"runtime", "tool_gateway", "memory_store", "governor"}:
            for bound in BOUNDS & vars(module).keys():
                monkeypatch.setattr(module, bound, BOUND)


def sizes() -> dict[int, tuple[int, Any]]:
    """Return every container that can be reached, by its address."""
    gc.collect()
    found: dict[int, tuple[int, Any]] = {}
    for one in gc.get_objects():
        # What holds only plain values is not tracked by itself.
        for held in (one, *gc.get_referents(one)):
            # By its type: to ask what it says of its class would load what is loaded late.
            if issubclass(type(held), CONTAINERS):
                found[id(held)] = (len(held), held)
    return found


def grown(before: dict[int, int], after: dict[int, tuple[int, Any]]) -> Iterator[str]:
    """Yield what is in each container that grew with the sessions."""
    for address, (size, container) in after.items():
        is_new = size - before.get(address, 0) > ROOM and container is not before
        if is_new and not is_of_a_bounded_cache(container):
            kinds = Counter(type(one).__name__ for one in list(container)[:1_000])
            some = repr(next(iter(container)))[:100]
            yield f"{type(container).__name__} of {size}: {dict(kinds)}, such as {some}"


def is_of_a_bounded_cache(container: Any) -> bool:
    """Tell whether the standard library keeps a container within its bound."""
    holders = gc.get_referrers(container)
    return any(
        isinstance(one, functools._lru_cache_wrapper)
        and (one.cache_parameters()["maxsize"] or sys.maxsize) <= CACHE_MAX
        for one in holders
    )


async def _call(client: httpx.AsyncClient, number: int, tool: str) -> None:
    answer = await client.post(
        "/mcp",
        headers={
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": tool,
            "accept": "application/json, text/event-stream",
            "flyball-session": f"session-{number}",
            "flyball-turn": "t1",
        },
        json={
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": tool, "arguments": {"text": f"{number}"}, "_meta": META},
        },
    )
    assert answer.status_code == 200, answer.text
    assert "flyball/denial" not in answer.json()["result"]["_meta"], answer.text


@pytest.mark.requirement("sessions.memory-is-bounded")
@pytest.mark.usefixtures("narrow")
async def test_no_part_remembers_more_of_many_sessions_than_its_bound(tmp_path: Path) -> None:
    async def live(client: httpx.AsyncClient, first: int, last: int) -> None:
        for number in range(first, last, AT_ONCE):
            async with anyio.create_task_group() as tasks:
                for one in range(number, number + AT_ONCE):
                    tasks.start_soon(_call, client, one, "one__echo")

    async with upstream(Everything()) as spec:
        config = parse_config(CONFIG.replace("URL", spec.url), source="the test")
        async with open_sidecar(config, state_dir=tmp_path / "state") as sidecar:
            transport = httpx.ASGITransport(app=sidecar.agents)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                await live(client, 0, 10 * AT_ONCE)
                before = {address: size for address, (size, _) in sizes().items()}
                await live(client, 10 * AT_ONCE, SESSIONS)
                found = list(grown(before, sizes()))

    assert found == []
