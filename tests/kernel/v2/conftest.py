"""What runs here needs every controller in the hierarchy of version 2: User-Mode Linux has it."""

import os
from pathlib import Path

import pytest

HOW = "python -m tests.kernel.lab uml tests/kernel/v2"
NEEDED = {"cpu", "io", "memory", "pids"}


@pytest.fixture(scope="session", autouse=True)
def _controllers() -> None:
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    found = set(controllers.read_text().split()) if controllers.exists() else set()
    if os.geteuid() != 0 or not found >= NEEDED:
        pytest.skip(f"needs root and all controllers of control groups version 2: {HOW}")
