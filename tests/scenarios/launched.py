"""`flyball run` beside a sidecar, as a process that tests can talk to."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scenarios.process import SidecarProcess

SECONDS_MAX = 90
# The launcher keeps agents from the state directory, which must not be around where they work.
PYTHON = sys.executable


@dataclass
class Visited(SidecarProcess):
    """A sidecar that several tests share, as one of them sees it from a folder of its own."""

    home: Path = Path()

    @property
    def state(self) -> Path:
        return self.home


def visited(sidecar: SidecarProcess, folder: Path) -> Visited:
    return Visited(folder=folder, urls=sidecar.urls, home=sidecar.state)


def command(sidecar: SidecarProcess, *words: str, python: str = sys.executable) -> list[str]:
    """Return the command line of `flyball run` against a sidecar with ports of its own."""
    config = sidecar.folder / "launcher.toml"
    agents, admin = (urlsplit(sidecar.urls[name]).netloc for name in ("agents", "admin"))
    config.write_text(f'[listen]\nagents = "{agents}"\nadmin = "{admin}"\n', encoding="utf-8")
    config.chmod(0o644)
    places = ("--config", str(config), "--state", str(sidecar.state))
    return [python, "-m", "runtime", "run", *places, *words]


@dataclass
class Launched:
    """An agent's launcher that ended."""

    status: int
    out: str
    told: str

    @property
    def shape(self) -> dict[str, Any]:
        """Return what it said in JSON, on its last line."""
        shape: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return shape


def workplace(sidecar: SidecarProcess) -> Path:
    place = sidecar.folder / "work"
    place.mkdir(exist_ok=True)
    return place


def launched(sidecar: SidecarProcess, *words: str, **more: Any) -> Launched:
    """Return how an agent went, whose launcher was given these words."""
    done = subprocess.run(
        command(sidecar, *words),
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS_MAX,
        cwd=workplace(sidecar),
        stdin=subprocess.DEVNULL,
        **more,
    )
    return Launched(status=done.returncode, out=done.stdout, told=done.stderr)


def program(sidecar: SidecarProcess, name: str, source: str) -> str:
    """Return the path of a Python program that an agent runs."""
    path = workplace(sidecar) / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return str(path)


@contextmanager
def launching(sidecar: SidecarProcess, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a launcher that runs, and end it at the end if it has not."""
    with (sidecar.folder / "launcher.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command(sidecar, *words),
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=workplace(sidecar),
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS_MAX)


def told(sidecar: SidecarProcess) -> str:
    return (sidecar.folder / "launcher.log").read_text(encoding="utf-8")
