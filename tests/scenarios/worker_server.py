"""An MCP server over stdio whose tools misbehave on request."""

import os
import subprocess
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("worker")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool(structured_output=False)
def big(lines: int) -> str:
    """Return many lines of text."""
    return "".join(f"line {number}: größer als erlaubt\n" for number in range(lines))


@server.tool(structured_output=False)
def sleep(seconds: float, started: str) -> str:
    """Write to the file `started`, then sleep."""
    _touch(started)
    time.sleep(seconds)
    return "slept"


@server.tool(structured_output=False)
def hold(started: str, until: str) -> str:
    """Write to the file `started`, then wait for the file `until`."""
    _touch(started)
    while not Path(until).exists():
        time.sleep(0.02)
    return "held"


@server.tool(structured_output=False)
def burn(cpu_ms: int) -> str:
    """Use processor time."""
    end = time.thread_time() + cpu_ms / 1000
    while time.thread_time() < end:
        pass
    return "burnt"


@server.tool(structured_output=False)
def hoard(mib: int) -> str:
    """Hold memory for a moment."""
    held = bytearray(mib << 20)
    held[::4096] = b"x" * len(held[::4096])
    return f"held {len(held)}"


@server.tool(structured_output=False)
def die() -> str:
    """End the whole server."""
    os._exit(3)


@server.tool(structured_output=False)
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


if __name__ == "__main__":
    server.run()
