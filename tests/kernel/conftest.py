"""Fixtures of the suite that needs root and control groups that can be written."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.executor import LocalExecutor
from tests.ebpf.commands import Pipe


@pytest.fixture(scope="session")
def host() -> Host:
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made and another user is become")
    found = probe_host(only=BackendKind.HYBRID)
    if found.backend is not BackendKind.HYBRID:
        pytest.skip(f"needs hybrid control groups: {found.capability('memory').why}")
    return found


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
def pipe(open_dir: Path) -> Pipe:
    return Pipe(open_dir)


@pytest.fixture
def executor(host: Host, state_dir: Path) -> LocalExecutor:
    return LocalExecutor(host=host, state_dir=state_dir, user="nobody")


@pytest.fixture
def groups(executor: LocalExecutor) -> Iterator[Callable[[str], list[Path]]]:
    """Yield a search for the executor's control groups, and see that none is left behind."""
    places = executor._domains.groups
    yield lambda name: [path for place in places for path in place.glob(f"*/*/{name}")]
    assert not [place for place in places if place.exists()]
