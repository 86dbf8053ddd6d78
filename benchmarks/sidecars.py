"""Sidecars to be measured, and the upstream that their calls go to."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from processes import free_port, wait_for, wait_for_text

HERE = Path(__file__).parent
ROOT = HERE.parent


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """One sidecar that serves."""

    agents: str
    admin: str
    token: str
    admin_token: str
    process: psutil.Process


@contextmanager
def echo_upstream() -> Iterator[str]:
    """Yield the URL of a server that answers what it was told, at the least cost."""
    port = free_port()
    command = (sys.executable, str(HERE / "gateway_upstream.py"), str(port))
    with subprocess.Popen(command) as process:
        try:
            wait_for(port, process, "the upstream")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


@contextmanager
def sidecar(
    upstream: str, *, config: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[Sidecar]:
    """Yield a sidecar before `upstream`, on ports and in a directory of its own.

    `config` is what its file says besides, `environment` what its process knows besides ours.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        said = folder / "said"
        (folder / "flyball.toml").write_text(
            '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
            f'[[upstream]]\nname = "echo"\nurl = "{upstream}"\n{config}',
            encoding="utf-8",
        )
        command = (sys.executable, "-m", "runtime", "up", "--json")
        places = ("--config", str(folder / "flyball.toml"), "--state", str(folder / "state"))
        with said.open("wb") as out:
            process = subprocess.Popen(
                [*command, *places], stdout=out, cwd=ROOT, env={**os.environ, **(environment or {})}
            )
        with process:
            try:
                urls = json.loads(wait_for_text(said))
                yield Sidecar(
                    agents=urls["agents"],
                    admin=urls["admin"],
                    token=Path(urls["agent_token_file"]).read_text(encoding="utf-8").strip(),
                    admin_token=Path(urls["admin_token_file"]).read_text(encoding="utf-8").strip(),
                    process=psutil.Process(process.pid),
                )
            finally:
                process.terminate()
