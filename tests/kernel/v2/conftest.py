"""Fixtures of the suites that run on every kind of domain that this machine can make."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebpf.capability import BackendKind, Host, probe_host
from ebpf.executor import LocalExecutor
from governor.limits import SharedLimits

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
        pytest.skip(f"this machine has no {found.capability('shared_limits').why}")
    return found


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
