"""A real `flyball up` in front of the servers that a test brings."""

import json
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from commands import Command

START_SECONDS_MAX = 150
STOP_SECONDS_MAX = 60


def sidecar_before(upstream: str, folder: Path) -> AbstractContextManager[str]:
    """Return what yields the URL of a sidecar before `upstream`, which it shows as it is."""
    return sidecar_with(
        f"""
[[upstream]]
name = "sole"
url = {json.dumps(upstream)}
prefix = "none"
""",
        folder,
    )


@contextmanager
def sidecar_with(upstreams: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a sidecar: governor, checks and records are on, tokens are off."""
    config = folder / "flyball.toml"
    config.write_text(
        f"""
[listen]
agents = "127.0.0.1:0"
admin = "127.0.0.1:0"

[auth]
mode = "none"

{upstreams}

[[budget]]
id = "all"
scope = "tenant"
limits = {{ tool_calls = 100000, wall_ms = 1000000000 }}
""",
        encoding="utf-8",
    )
    words = ("up", "--json", "--config", str(config), "--state", str(folder / "state"))
    with (folder / "stderr.log").open("w", encoding="utf-8") as log:
        process = Command(words, cwd=folder, stderr=log)
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS_MAX)
        line = process.stdout.readline() if ready else ""
        told = (folder / "stderr.log").read_text(encoding="utf-8")
        assert line, f"the sidecar did not start: {told}"
        yield json.loads(line)["agents"]
    finally:
        process.terminate()
        process.wait(STOP_SECONDS_MAX)
        process.stdout.close()


@contextmanager
def everything_at(folder: Path, *, port: int) -> Iterator[str]:
    """Yield the URL of the SDK's server for the suite."""
    argv = [sys.executable, "-m", "mcp_everything_server", "--port", str(port)]
    with subprocess.Popen(
        [*argv, "--log-level", "ERROR"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            answers_at(url)
            yield url
        finally:
            process.terminate()


def answers_at(url: str) -> None:
    """Wait until a server answers there."""
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            return  # it answers, though not to this
        except OSError:
            time.sleep(0.05)
        else:
            return
    message = f"{url} did not start"
    raise AssertionError(message)
