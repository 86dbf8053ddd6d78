"""What an executor promises before it runs anything."""

import dataclasses
import os
from pathlib import Path

import anyio
import pytest

from ebpf.capability import (
    BackendKind,
    Capability,
    CapabilityState,
    Host,
    probe_host,
)
from ebpf.executor import LocalExecutor
from governor.call import Enforcement
from tests.ebpf.commands import limits, shell

NAMES = ("memory", "pids", "cpu_rate", "cpu_time", "wall", "output", "kill_tree")


def promise(host: Host, states: dict[str, CapabilityState], state_dir: Path) -> LocalExecutor:
    capabilities = tuple(
        Capability(
            name=name,
            state=states.get(name, CapabilityState.ENFORCED),
            by="a test",
            why="as made up",
        )
        for name in NAMES
    )
    made_up = dataclasses.replace(host, capabilities=capabilities)
    return LocalExecutor(host=made_up, state_dir=state_dir, user="nobody")


def test_limits_are_enforced_where_every_one_of_them_is(host: Host, state_dir: Path) -> None:
    executor = promise(host, {}, state_dir)

    assert executor.isolation_for(limits(), None).enforcement is Enforcement.ENFORCED


def test_one_observed_limit_makes_the_whole_observed(host: Host, state_dir: Path) -> None:
    executor = promise(host, {"memory": CapabilityState.OBSERVED}, state_dir)

    isolated = executor.isolation_for(limits(), None)

    assert isolated.enforcement is Enforcement.OBSERVED
    assert "memory observed: as made up" in isolated.why


def test_a_limit_that_nothing_can_hold_makes_the_whole_unenforced(
    host: Host, state_dir: Path
) -> None:
    executor = promise(host, {"cpu_rate": CapabilityState.ABSENT}, state_dir)

    asked = executor.isolation_for(limits(cpu_millis=500), None)
    not_asked = executor.isolation_for(limits(), None)

    assert asked.enforcement is Enforcement.NONE
    assert "cpu_rate absent" in asked.why
    assert not_asked.enforcement is Enforcement.ENFORCED


def test_a_host_without_control_groups_says_observed_with_its_sampling_bound(
    executor: LocalExecutor,
) -> None:
    isolated = executor.isolation_for(limits(), None)

    assert isolated.enforcement is Enforcement.OBSERVED
    assert "sampled every 100 ms" in isolated.why


def test_a_host_whose_control_groups_cannot_be_found_falls_back_and_says_why(
    tmp_path: Path,
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text("")
    (tmp_path / "self" / "cgroup").write_text("")

    host = probe_host(proc=tmp_path)

    assert host.backend is BackendKind.RLIMIT
    assert "no hierarchy is mounted for memory" in host.capability("groups").why


def test_a_control_group_that_cannot_be_made_is_a_reason_to_fall_back(tmp_path: Path) -> None:
    """A plain directory takes every mkdir and write but answers like no control group."""
    (tmp_path / "self").mkdir()
    lines = [
        f"3{n} 1 0:{n} / {tmp_path} rw - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(("memory", "pids", "cpu", "cpuacct"))
    ]
    lines.append(f"40 1 0:9 / {tmp_path}/v2 rw - cgroup2 none rw\n")
    (tmp_path / "self" / "mountinfo").write_text("".join(lines))
    (tmp_path / "self" / "cgroup").write_text("1:memory,pids,cpu,cpuacct:/\n0::/\n")

    host = probe_host(proc=tmp_path)

    assert host.backend is BackendKind.RLIMIT
    assert host.capability("memory").why
    assert not list(tmp_path.glob(f"flyball-probe-{os.getpid()}"))


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "x" * 129])
async def test_any_id_may_name_a_call_a_session_and_a_tenant(
    executor: LocalExecutor, name: str
) -> None:
    with anyio.fail_after(60):
        result = await executor.run(name, shell("true"), limits(), tenant=name, session=name)

    assert result.exit_code == 0
