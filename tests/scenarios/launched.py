"""`flyball run` beside a sidecar, as a process that tests can talk to."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commands import Command, run_command
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


def words_of(sidecar: SidecarProcess, *words: str) -> list[str]:
    """Return the words of `flyball run` against a sidecar with ports of its own."""
    config = sidecar.folder / "launcher.toml"
    agents, admin = (urlsplit(sidecar.urls[name]).netloc for name in ("agents", "admin"))
    config.write_text(f'[listen]\nagents = "{agents}"\nadmin = "{admin}"\n', encoding="utf-8")
    config.chmod(0o644)
    return ["run", "--config", str(config), "--state", str(sidecar.state), *words]


def command(sidecar: SidecarProcess, *words: str) -> list[str]:
    """Return the command line of `flyball run`, for an interpreter of its own."""
    return [sys.executable, "-m", "runtime", *words_of(sidecar, *words)]


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


def launched(sidecar: SidecarProcess, *words: str) -> Launched:
    """Return how an agent went, whose launcher was given these words."""
    place = workplace(sidecar)
    done = run_command(words_of(sidecar, *words), cwd=place, timeout=SECONDS_MAX)
    return Launched(status=done.returncode, out=done.stdout, told=done.stderr)


def program(sidecar: SidecarProcess, name: str, source: str) -> str:
    """Return the path of a Python program that an agent runs."""
    path = workplace(sidecar) / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return str(path)


@contextmanager
def launching(sidecar: SidecarProcess, *words: str) -> Iterator[Command]:
    """Yield a launcher that runs, and end it at the end if it has not."""
    place, words = workplace(sidecar), tuple(words_of(sidecar, *words))
    with (sidecar.folder / "launcher.log").open("w", encoding="utf-8") as log:
        process = Command(words, cwd=place, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(SECONDS_MAX)


def told(sidecar: SidecarProcess) -> str:
    return (sidecar.folder / "launcher.log").read_text(encoding="utf-8")
