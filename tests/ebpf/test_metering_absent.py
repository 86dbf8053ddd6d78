"""A host that lacks what metering needs: it says so, and everything else goes on."""

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.errors import ProbeError
from ebpf.executor import LocalExecutor
from ebpf.metering_parts import found_parts, parts_without
from ebpf.probe import libbpf as binding
from ebpf.probe.pins import Pins, is_mounted
from governor.amounts import Unit
from governor.call import Enforcement
from tests.ebpf.commands import ROOT, limits

pytestmark = pytest.mark.requirement("metering.says-what-is-missing")

NAMES = (
    "egress_bytes",
    "connections",
    "executions",
    "opens",
    "oom_victims",
    "egress_outlives",
    "sched_ext",
)


def test_a_host_without_control_groups_meters_nothing_and_says_why(host: Host) -> None:
    for name in NAMES:
        assert host.capability(name).state is CapabilityState.ABSENT
        assert host.capability(name).why


def test_a_host_without_a_v2_hierarchy_says_so() -> None:
    parts = {part.name: part for part in found_parts({})}

    assert set(parts) == set(NAMES)
    assert parts["egress_bytes"].why_not == "no v2 hierarchy of control groups is mounted"


def test_what_nobody_counts_is_unmeasured_with_the_hosts_reason(executor: LocalExecutor) -> None:
    assert executor.unmeasurable[Unit.EGRESS_BYTES] == "control groups were left alone on request"


def test_a_limit_on_egress_is_no_isolation_where_nobody_holds_it(executor: LocalExecutor) -> None:
    isolated = executor.isolation_for(replace(limits(), egress_bytes=1), None)

    assert isolated.enforcement is Enforcement.NONE
    assert "egress_bytes absent" in isolated.why


def test_without_libbpf_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, **_: object) -> None:
        raise OSError(name)

    binding._loaded.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)

    with pytest.raises(ProbeError, match="libbpf1"):
        binding.libbpf()

    binding._loaded.cache_clear()


def test_a_part_that_works_does_not_hide_one_that_does_not() -> None:
    absent = {part.name for part in parts_without("nothing loads") if part.why_not}

    assert absent == set(NAMES)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("30 1 0:30 / /sys/fs/bpf rw - bpf bpf rw,mode=700", True),
        ("30 1 0:30 / /sys/fs/bpf rw - sysfs sysfs rw", False),
        ("30 1 0:30 / /elsewhere rw - bpf bpf rw", False),
        ("", False),
    ],
)
def test_a_bpf_file_system_is_one_by_its_type(tmp_path: Path, line: str, *, expected: bool) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"20 1 0:20 / / rw shared:1 - ext4 /dev/vda rw\n{line}\n")

    assert is_mounted(mountinfo=mountinfo) is expected


def test_what_is_mounted_last_hides_what_was_there(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(
        "30 1 0:30 / /sys/fs/bpf rw - sysfs sysfs rw\n31 1 0:31 / /sys/fs/bpf rw - bpf bpf rw\n"
    )

    assert is_mounted(mountinfo=mountinfo)
    assert not is_mounted(mountinfo=tmp_path / "none")


def test_only_the_pins_of_dead_processes_of_this_instance_are_swept(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""], cwd=ROOT)
    ended.wait()
    for name in (f"flyball-a-{ended.pid}", f"flyball-a-{os.getpid()}", f"flyball-b-{ended.pid}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").touch()

    swept = Pins(instance="a", pid=1, place=tmp_path).sweep()

    assert swept == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"flyball-a-{os.getpid()}", f"flyball-b-{ended.pid}"]
    )
