"""Where the directories of a hybrid domain stand; plain folders play the hierarchies."""

from pathlib import Path

import anyio
import pytest

from ebpf.domains.hierarchies import Hierarchy
from ebpf.domains.hybrid import CONTROLLERS, HybridDomains
from ebpf.errors import DomainError
from tests.ebpf.commands import limits


def domains_in(root: Path, *, together: tuple[str, ...] = (), pid: int = 7) -> HybridDomains:
    hierarchies = {}
    for name in CONTROLLERS:
        place = root / ("+".join(together) if name in together else name) / "own"
        place.mkdir(parents=True, exist_ok=True)
        hierarchies[name] = Hierarchy(mount=place.parent, own=place)
    return HybridDomains(hierarchies, instance="0123", pid=pid)


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.glob("*/own/**") if path.name != "own"}


def test_a_domain_stands_beneath_the_sidecars_own_group_in_every_hierarchy(tmp_path: Path) -> None:
    domain = domains_in(tmp_path).make("call", None)

    assert domain.entry.join == tuple(
        f"{tmp_path}/{name}/own/flyball-0123-7/call/cgroup.procs" for name in CONTROLLERS
    )


def test_controllers_that_are_mounted_together_share_a_directory(tmp_path: Path) -> None:
    domain = domains_in(tmp_path, together=("cpu", "cpuacct")).make("call", None)

    assert len(domain.entry.join) == len(CONTROLLERS) - 1


@pytest.mark.anyio
async def test_the_instances_directory_goes_with_its_last_domain(tmp_path: Path) -> None:
    domains = domains_in(tmp_path)
    first, second = domains.make("first", None), domains.make("second", None)

    with anyio.fail_after(5):
        await first.remove()
        between = folders(tmp_path)
        await second.remove()

    assert "memory/own/flyball-0123-7/second" in between
    assert "memory/own/flyball-0123-7/first" not in between
    assert folders(tmp_path) == set()


def test_a_refused_limit_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"memory\.limit_in_bytes"):
        domains_in(tmp_path).make("call", limits())

    assert folders(tmp_path) == set()


def test_a_name_that_is_taken_is_refused_and_its_owner_left_alone(tmp_path: Path) -> None:
    domains = domains_in(tmp_path)
    domains.make("call", None)

    with pytest.raises(DomainError, match="call"):
        domains.make("call", None)

    assert "memory/own/flyball-0123-7/call" in folders(tmp_path)


@pytest.mark.anyio
async def test_a_group_that_stays_busy_is_an_error_and_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebpf.domains.groups.REMOVE_SECONDS_MAX", 0.05)
    domain = domains_in(tmp_path).make("call", None)
    (tmp_path / "pids/own/flyball-0123-7/call/inside").mkdir()

    with anyio.fail_after(5), pytest.raises(DomainError, match=r"still busy in .*pids"):
        await domain.remove()


@pytest.mark.anyio
async def test_a_sweep_removes_what_other_processes_of_the_instance_left_and_nothing_else(
    tmp_path: Path,
) -> None:
    dead, mine = domains_in(tmp_path, pid=7), domains_in(tmp_path, pid=8)
    dead.make("left", None)
    mine.make("live", None)
    for name in CONTROLLERS:
        (tmp_path / name / "own" / "flyball-0123-6").mkdir()  # emptied, and not removed
        (tmp_path / name / "own" / "flyball-4567-7").mkdir()  # another instance's

    with anyio.fail_after(5):
        swept = await mine.sweep()

    assert swept == 1
    left = {path.split("/", 2)[2] for path in folders(tmp_path)}
    assert left == {"flyball-0123-8", "flyball-0123-8/live", "flyball-4567-7"}
