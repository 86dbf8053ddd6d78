"""An MCP server over stdio whose tools misbehave on request.

It speaks the protocol with nothing but Python: an SDK takes most of a second of a processor to
load, and almost every scenario starts such a server. Those of SDKs are upstreams elsewhere.
"""

import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

VERSIONS = ("2026-07-28", "2025-11-25")
INFO = {"name": "worker", "version": "1"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
TYPES = {str: "string", int: "integer", float: "number"}
METHOD_NOT_FOUND = -32601

TOOLS: dict[str, Callable[..., str]] = {}


def tool(function: Callable[..., str]) -> Callable[..., str]:
    """Offer a function as a tool."""
    TOOLS[function.__name__] = function
    return function


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool
def big(lines: int) -> str:
    """Return many lines of text."""
    return "".join(f"line {number}: größer als erlaubt\n" for number in range(lines))


@tool
def sleep(seconds: float, started: str) -> str:
    """Write to the file `started`, then sleep."""
    _touch(started)
    time.sleep(seconds)
    return "slept"


@tool
def hold(started: str, until: str) -> str:
    """Write to the file `started`, then wait for the file `until`."""
    _touch(started)
    while not Path(until).exists():
        time.sleep(0.02)
    return "held"


@tool
def burn(cpu_ms: int) -> str:
    """Use processor time."""
    end = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < end:
        pass
    return "burnt"


@tool
def hoard(mib: int) -> str:
    """Hold memory for a moment."""
    held = bytearray(mib << 20)
    held[::4096] = b"x" * len(held[::4096])
    return f"held {len(held)}"


@tool
def die() -> str:
    """End the whole server."""
    os._exit(3)


@tool
def leave_child(pid_file: str) -> str:
    """Start a process that outlives everything it is asked to outlive."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal,time; signal.signal(15, 1); time.sleep(600)"],
        start_new_session=True,
    )
    Path(pid_file).write_text(str(child.pid), encoding="utf-8")
    return "left"


def _touch(path: str) -> None:
    draft = Path(f"{path}.new")
    draft.write_text("started", encoding="utf-8")
    draft.rename(path)


def described(name: str) -> Json:
    """Return a tool as the protocol lists it."""
    parameters = inspect.signature(TOOLS[name]).parameters.values()
    schema = {
        "type": "object",
        "properties": {one.name: {"type": TYPES[one.annotation]} for one in parameters},
        "required": [one.name for one in parameters],
    }
    return {"name": name, "description": TOOLS[name].__doc__, "inputSchema": schema}


class Server:
    """What reads requests, a thread for each call, and writes answers."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._cancelled: set[object] = set()

    def serve(self) -> None:
        """Return when nobody asks any more; calls that run are given up."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            method, params = message.get("method"), message.get("params", {})
            if method == "notifications/cancelled":
                self._cancelled.add(params["requestId"])
            elif method == "subscriptions/listen":
                self._acknowledge(message["id"], params["notifications"])
            elif method == "tools/call":
                call = (message["id"], params["name"], params.get("arguments") or {})
                threading.Thread(target=self._call, args=call, daemon=True).start()
            elif "id" in message:
                self._answer(message["id"], method, params)

    def _call(self, number: object, name: str, arguments: Json) -> None:
        # As servers of SDKs do, it goes by what it knows and lets the rest be.
        known = described(name)["inputSchema"]["properties"]
        try:
            text = TOOLS[name](**{one: arguments[one] for one in arguments if one in known})
            is_error = False
        except Exception:  # noqa: BLE001 - a call's top
            text, is_error = f"Error executing tool {name}", True
        content = [{"type": "text", "text": text}]
        if number not in self._cancelled:
            self._write(_result(number, {"content": content, "isError": is_error}))

    def _answer(self, number: object, method: str, params: Json) -> None:
        result = _known(method, params)
        if result is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"no method {method}"}
            self._write({"jsonrpc": "2.0", "id": number, "error": error})
        else:
            self._write(_result(number, result))

    def _acknowledge(self, number: object, notifications: Json) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": number}
        params = {"_meta": meta, "notifications": notifications}
        method = "notifications/subscriptions/acknowledged"
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def _write(self, message: Json) -> None:
        with self._writing:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()


def _known(method: str, params: Json) -> Json | None:
    """Return the result of a request that is always answered alike, None for an unknown one."""
    if method == "initialize":
        asked = params["protocolVersion"]
        version = asked if asked in VERSIONS else VERSIONS[-1]
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
    listed: dict[str, Json] = {
        "server/discover": {"supportedVersions": VERSIONS[:1], "capabilities": CAPABILITIES},
        "tools/list": {"tools": [described(name) for name in TOOLS]},
        "prompts/list": {"prompts": []},
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
    }
    if method in listed:
        return {**listed[method], "ttlMs": 0, "cacheScope": "private"}
    return {} if method == "ping" else None


def _result(number: object, result: Json) -> Json:
    meta = {"io.modelcontextprotocol/serverInfo": INFO}
    return {
        "jsonrpc": "2.0",
        "id": number,
        "result": {"resultType": "complete", "_meta": meta, **result},
    }


if __name__ == "__main__":
    Server().serve()
