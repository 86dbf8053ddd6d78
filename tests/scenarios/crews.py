"""What is asked of a sidecar of several workers: of one of them, or of whichever accepts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from scenarios.process import SidecarProcess, descendants, is_alive

from runtime.workers.places import worker_socket

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@asynccontextmanager
async def at(crew: SidecarProcess, worker: int | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of one worker, or of whichever accepts."""
    transport = None
    if worker is not None:
        transport = httpx.AsyncHTTPTransport(uds=str(worker_socket(crew.state, worker)))
    base = crew.urls["agents"].removesuffix("/mcp")
    async with httpx.AsyncClient(
        base_url=base,
        transport=transport,
        trust_env=False,
        timeout=60,
        headers={
            "Authorization": f"Bearer {crew.token('agent')}",
            "Accept": "application/json, text/event-stream",
        },
    ) as client:
        yield client


async def call(
    client: httpx.AsyncClient,
    tool: str = "worker__echo",
    *,
    session: str | None = None,
    can: dict[str, Any] | None = None,
    also: dict[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Return what a call of the era without sessions was answered."""
    return result_of(await posted(client, tool, session=session, can=can, also=also, **arguments))


async def posted(
    client: httpx.AsyncClient,
    tool: str = "worker__echo",
    *,
    session: str | None = None,
    can: dict[str, Any] | None = None,
    also: dict[str, Any] | None = None,
    **arguments: Any,
) -> httpx.Response:
    """Return the answer to a call of the era without sessions, whatever it is."""
    if tool == "worker__echo":
        arguments = {"text": "x", **arguments}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
    if session is not None:
        headers["Flyball-Session"] = session
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": can or {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta, **(also or {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await client.post("/mcp", headers=headers, json=message)


def result_of(answer: httpx.Response) -> dict[str, Any]:
    """Return what a call was answered that came as far as being governed."""
    assert answer.status_code == 200, answer.text
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1][5:]
    result: dict[str, Any] = json.loads(text)["result"]
    return result


def reason_of(result: dict[str, Any]) -> str:
    """Return why a call was denied, "" if it ran."""
    return str(result["_meta"].get("flyball/denial", {}).get("reason", ""))


def processes_of(crew: SidecarProcess, role: str) -> list[int]:
    """Return the processes of a role, as the system knows them."""
    assert crew.process is not None
    found = []
    for pid in descendants(crew.process.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"runtime.workers" in words and role.encode() in words and is_alive(pid):
                found.append(pid)
    return found
