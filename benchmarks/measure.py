"""What the benchmarks share: percentiles, and what machine this is."""

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path


def percentiles(samples_ms: Iterable[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    ordered = sorted(samples_ms)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Return `median (min-max)`."""
    ordered = sorted(values)
    middle = statistics.median(ordered)
    return f"{middle:.{digits}f} ({ordered[0]:.{digits}f}-{ordered[-1]:.{digits}f})"


def fsync_ms(folder: Path, times: int = 200) -> float:
    """Return how long the disk under `folder` takes to store one page, in the median."""
    samples_ms = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(bytes(8192))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            samples_ms.append((time.perf_counter() - began) * 1e3)
    return statistics.median(samples_ms)


def machine() -> str:
    """Return the machine and the commit, as a line."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, load {load}, commit {commit or 'unknown'}"
    )
