"""What the benchmarks ask of processes that they start: a port, a sign of life, what they use."""

import socket
import subprocess
import time
from pathlib import Path

import psutil

START_SECONDS_MAX = 120


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], name: str) -> None:
    """Return once somebody listens at the port."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{name} ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"{name} does not listen")


def wait_for_text(path: Path) -> str:
    """Return what is in a file, once there is something in it."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text(encoding="utf-8")):
            return text
        time.sleep(0.1)
    raise TimeoutError(f"nothing wrote {path.name}")


def cpu_s(process: psutil.Process) -> float:
    """Return what a process and those below it have used so far."""
    return sum(sum(one.cpu_times()[:2]) for one in _tree(process))


def rss_mib(process: psutil.Process) -> float:
    """Return what a process and those below it hold in memory now."""
    return sum(one.memory_info().rss for one in _tree(process)) / 2**20


def _tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]
