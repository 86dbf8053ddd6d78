"""Where the directories of a domain stand; plain folders play the hierarchies."""

from pathlib import Path

import anyio
import pytest

from ebpf.domains.controls_v1 import BLKIO, ControlsV1
from ebpf.domains.hierarchies import UNIFIED, Hierarchy
from ebpf.domains.place import Place, ServerPlace
from ebpf.domains.reins import UnifiedReins
from ebpf.domains.tree import GroupBackend, GroupDomains, shared_limits
from ebpf.errors import DomainError
from governor.limits import UNLIMITED, SharedLimits
from tests.ebpf.commands import limits

NAMES = ("memory", "pids", "cpu", UNIFIED)
HYBRID = GroupBackend(controls=ControlsV1(cpu_time_from=UNIFIED), reins=UnifiedReins())
BASE = "flyball-0123-7"


def domains_in(
    root: Path,
    *,
    together: tuple[str, ...] = (),
    pid: int = 7,
    session: SharedLimits = UNLIMITED,
) -> GroupDomains:
    hierarchies = {}
    for name in (*NAMES, BLKIO):
        place = root / ("+".join(together) if name in together else name) / "own"
        place.mkdir(parents=True, exist_ok=True)
        hierarchies[name] = Hierarchy(mount=place.parent, own=place)
    return GroupDomains(
        HYBRID,
        hierarchies,
        instance="0123",
        pid=pid,
        limits_of=shared_limits(tenant=UNLIMITED, session=session),
    )


def at(call: str, *, session: str = "s", tenant: str = "t") -> Place:
    return Place(tenant=tenant, session=session, call=call)


def folders(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.glob("*/own/**") if path.name != "own"}


def test_a_domain_stands_beneath_its_tenant_and_session_in_every_hierarchy(tmp_path: Path) -> None:
    domain = domains_in(tmp_path).make(at("call"), None)

    assert domain.entry.join == tuple(
        f"{tmp_path}/{name}/own/{BASE}/t/s/call/cgroup.procs" for name in NAMES
    )
    assert domain.unified == tmp_path / UNIFIED / "own" / BASE / "t" / "s" / "call"


def test_controllers_that_are_mounted_together_share_a_directory(tmp_path: Path) -> None:
    domain = domains_in(tmp_path, together=("cpu", "pids")).make(at("call"), None)

    assert len(domain.entry.join) == len(NAMES) - 1


def test_servers_stand_beside_the_tenants_and_no_tenant_can_take_their_place(
    tmp_path: Path,
) -> None:
    domains = domains_in(tmp_path)

    server = domains.make(ServerPlace(name="files"), None)
    call = domains.make(at("files", tenant="_servers", session="files"), None)

    assert f"own/{BASE}/_servers/files/" in server.entry.join[0]
    assert "/_servers/" not in call.entry.join[0].removeprefix(str(tmp_path))


@pytest.mark.anyio
async def test_shared_groups_go_with_the_last_domain_in_them(tmp_path: Path) -> None:
    domains = domains_in(tmp_path)
    first = domains.make(at("first"), None)
    second = domains.make(at("second", session="other"), None)

    with anyio.fail_after(60):
        await first.remove()
        between = folders(tmp_path)
        await second.remove()

    assert f"memory/own/{BASE}/t/other/second" in between
    assert f"memory/own/{BASE}/t/s" not in between
    assert folders(tmp_path) == set()


@pytest.mark.anyio
async def test_a_session_whose_group_somebody_removed_gets_it_again(tmp_path: Path) -> None:
    domains = domains_in(tmp_path)
    kept = domains.make(at("kept"), None)
    for name in NAMES:
        (tmp_path / name / "own" / BASE / "t" / "s" / "kept").rmdir()
        (tmp_path / name / "own" / BASE / "t" / "s").rmdir()

    with anyio.fail_after(60):
        after = domains.make(at("after"), None)
        stood = folders(tmp_path)
        await after.remove()
        await kept.remove()

    assert f"pids/own/{BASE}/t/s/after" in stood
    assert folders(tmp_path) == set()


def test_a_refused_limit_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"memory\.limit_in_bytes"):
        domains_in(tmp_path).make(at("call"), limits())

    assert folders(tmp_path) == set()


def test_a_refused_limit_of_a_session_leaves_no_directory(tmp_path: Path) -> None:
    domains = domains_in(tmp_path, session=SharedLimits(pids=5))

    with pytest.raises(DomainError, match=r"pids\.max"):
        domains.make(at("call"), None)

    assert folders(tmp_path) == set()


def test_a_name_that_is_taken_is_refused_and_its_owner_left_alone(tmp_path: Path) -> None:
    domains = domains_in(tmp_path)
    domains.make(at("call"), None)

    with pytest.raises(DomainError, match="call"):
        domains.make(at("call"), None)

    assert f"memory/own/{BASE}/t/s/call" in folders(tmp_path)


@pytest.mark.anyio
async def test_a_group_that_stays_busy_is_an_error_and_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebpf.domains.groups.REMOVE_SECONDS_MAX", 0.05)
    domain = domains_in(tmp_path).make(at("call"), None)
    (tmp_path / f"pids/own/{BASE}/t/s/call/inside").mkdir()

    with anyio.fail_after(60), pytest.raises(DomainError, match=r"still busy in .*pids"):
        await domain.remove()


@pytest.mark.anyio
async def test_a_sweep_removes_what_other_processes_of_the_instance_left_and_nothing_else(
    tmp_path: Path,
) -> None:
    dead, mine = domains_in(tmp_path, pid=7), domains_in(tmp_path, pid=8)
    dead.make(at("left"), None)
    dead.make(at("too", session="other"), None)
    mine.make(at("live"), None)
    for name in NAMES:
        (tmp_path / name / "own" / "flyball-0123-6").mkdir()  # emptied, and not removed
        (tmp_path / name / "own" / "flyball-4567-7").mkdir()  # another instance's
        (tmp_path / name / "own" / "flyball-0123-8" / "t" / "s" / "stray").mkdir()

    with anyio.fail_after(60):
        swept = await mine.sweep()

    assert swept == 3
    left = {path.split("/", 2)[2] for path in folders(tmp_path)}
    own = "flyball-0123-8"
    assert left == {own, f"{own}/t", f"{own}/t/s", f"{own}/t/s/live", "flyball-4567-7"}
