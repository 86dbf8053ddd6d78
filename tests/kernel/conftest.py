"""Fixtures of the suite that needs root and control groups that can be written."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.executor import LocalExecutor
from governor.limits import SharedLimits
from tests.ebpf.commands import Pipe

UNLIMITED = SharedLimits()
Made = Callable[..., LocalExecutor]


def host_with(kind: BackendKind) -> Host:
    """Return this machine with that kind of domain, or skip with the reason."""
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made and another user is become")
    if kind is BackendKind.RLIMIT:
        return probe_host(force_rlimit=True)
    found = probe_host(only=kind)
    if found.backend is not kind:
        pytest.skip(f"this machine has no {found.capability('groups').why}")
    return found


@pytest.fixture(scope="session")
def host() -> Host:
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made and another user is become")
    found = probe_host(only=BackendKind.HYBRID)
    if found.backend is not BackendKind.HYBRID:
        pytest.skip(f"needs hybrid control groups: {found.capability('groups').why}")
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


@pytest.fixture(scope="session", params=[kind.value for kind in BackendKind])
def any_host(request: pytest.FixtureRequest) -> Host:
    """Return the machine with each kind of domain that it can make."""
    return host_with(BackendKind(request.param))


@pytest.fixture(scope="session", params=["v2", "hybrid", "v1"])
def group_host(request: pytest.FixtureRequest) -> Host:
    """Return the machine with each kind of control groups that it has."""
    return host_with(BackendKind(request.param))


@pytest.fixture(scope="session")
def v2_host() -> Host:
    """Return a machine with control groups of version 2 alone."""
    return host_with(BackendKind.V2)


@pytest.fixture
def made(state_dir: Path) -> Iterator[Made]:
    """Yield what makes executors, and see that none leaves a group behind."""
    executors: list[LocalExecutor] = []

    def make(
        host: Host, *, session: SharedLimits = UNLIMITED, tenant: SharedLimits = UNLIMITED
    ) -> LocalExecutor:
        executor = LocalExecutor(
            host=host,
            state_dir=state_dir,
            user="nobody",
            session_limits=session,
            tenant_limits=tenant,
        )
        executors.append(executor)
        return executor

    yield make
    left = [path for one in executors for path in one._domains.groups if path.exists()]
    assert left == []
