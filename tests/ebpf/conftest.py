"""Fixtures of the suite that needs no privileges: observed domains on any host."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.capability import Host, probe_host
from ebpf.executor import LocalExecutor


@pytest.fixture(scope="session")
def host() -> Host:
    return probe_host(force_rlimit=True)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """Yield a directory that every user may enter and write."""
    path = Path(tempfile.mkdtemp(prefix="flyball-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def executor(host: Host, state_dir: Path) -> LocalExecutor:
    return LocalExecutor(host=host, state_dir=state_dir, user="nobody")


@pytest.fixture
def unprivileged() -> None:
    if os.geteuid() == 0:
        pytest.skip("runs where the sidecar is not root; tests/kernel does so as another user")
