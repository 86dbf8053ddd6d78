"""Model gateways that run, each in processes of its own, and the load that is put on them."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from gateway_parties import HERE, Place
from model_parties import CHAT, Party
from processes import START_SECONDS_MAX, free_port, wait_for

# An answer is whole, streamed at once, or streamed word by word, as models do.
JSON, SSE, PACED = "whole", "streamed", "paced"
PACE_MS = 5
DIRECT = Party(name="direct", command=lambda *_: ())

Row = dict[str, float]


@dataclass
class Running:
    """A party that listens, and what was measured of it."""

    party: Party
    url: str
    process: psutil.Process
    folder: Path
    headers: Sequence[str] = ()
    tokens_max: int = 64
    answered: int = 0
    errors: int = 0
    error: str = ""
    rss_mib: float = 0
    # By kind and callers, then by round, so that only figures of one round are compared.
    rows: dict[tuple[str, int], dict[int, Row]] = field(default_factory=dict)


def load(one: Running, *more: str) -> dict[str, Any]:
    """Return what one run of the load generator measured."""
    command = [sys.executable, str(HERE / "model_load.py"), "--url", one.url]
    command += ["--tokens-max", str(one.tokens_max), *more]
    for header in one.headers:
        command += ["--header", header]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{one.party.name}: {done.stderr[-2_000:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def upstream() -> Iterator[Running]:
    """Run the model server itself, and return it as the party that is called directly."""
    port = free_port()
    command = (sys.executable, str(HERE / "model_upstream.py"), str(port))
    place = Place(port=port, folder=Path(), upstream="")
    with _listening(DIRECT, command, place, tokens_max=64) as one:
        yield one


@contextmanager
def started(party: Party, peers: Path, behind: str, *, tokens_max: int = 64) -> Iterator[Running]:
    """Run a party in front of the server `behind` it, in a folder of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Place(port=free_port(), folder=Path(folder), upstream=behind)
        command = party.command(peers, place)
        with _listening(party, command, place, tokens_max=tokens_max) as one:
            yield one


@contextmanager
def _listening(
    party: Party, command: Sequence[str], place: Place, *, tokens_max: int
) -> Iterator[Running]:
    with subprocess.Popen(
        command,
        env={**os.environ, **party.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(place.port, process, party.name)
            url = f"http://127.0.0.1:{place.port}{CHAT}"
            headers = party.headers(place)
            one = Running(
                party, url, psutil.Process(process.pid), place.folder, headers, tokens_max
            )
            _wait_until_it_answers(one)
            yield one
        finally:
            process.terminate()


def _wait_until_it_answers(one: Running) -> None:
    """Return once a call succeeds: some listen before they are ready."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        found = load(one, "--times", "0")  # each caller's first call alone
        one.answered += found["warmed"]
        if not found["errors"]:
            return
        assert time.monotonic() < deadline, f"{one.party.name}: {found['error']}"
        time.sleep(1)
