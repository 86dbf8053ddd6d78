"""What keeps a command away from the sidecar, decided without running one."""

import os
from pathlib import Path

import pytest

from ebpf.containment import Account, account_of, containment_for
from ebpf.errors import CapabilityMissingError
from ebpf.launcher.landlock import ABI_SIGNAL, grants
from ebpf.launcher.spec import CarveSpec

STRANGER = Account(uid=54_321, gid=54_321)
ABI = 7


def is_granted(path: Path, carve: CarveSpec, right: int) -> bool:
    places = {str(place) for place in (path, *path.parents)}
    return any(granted in places and rights & right for granted, rights in grants(carve))


READ, WRITE = 1 << 2, 1 << 1


@pytest.fixture
def closed_home(tmp_path: Path) -> Path:
    """Return a home that only its owner can write, with a state directory in it."""
    (tmp_path / "home" / "state").mkdir(parents=True)
    (tmp_path / "home" / "state").chmod(0o700)
    (tmp_path / "home" / "work").mkdir()
    return tmp_path / "home"


def test_a_hidden_directory_is_beneath_no_grant_and_everything_beside_it_is(
    closed_home: Path,
) -> None:
    carve = CarveSpec(
        abi=ABI, hidden=[str(closed_home / "state")], read_only=["/sys/fs/cgroup"], no_exec=[]
    )

    assert not is_granted(closed_home / "state" / "ledger.db", carve, READ)
    assert not is_granted(closed_home / "state" / "ledger.db", carve, WRITE)
    assert is_granted(closed_home / "work" / "file", carve, READ)
    assert is_granted(closed_home / "work" / "file", carve, WRITE)
    assert is_granted(Path("/usr/bin/env"), carve, READ)


def test_control_groups_can_be_read_and_not_written() -> None:
    carve = CarveSpec(abi=ABI, hidden=[], read_only=["/sys/fs/cgroup"], no_exec=[])

    assert is_granted(Path("/sys/fs/cgroup/cgroup.procs"), carve, READ)
    assert not is_granted(Path("/sys/fs/cgroup/cgroup.procs"), carve, WRITE)


def test_a_directory_whose_name_begins_alike_is_not_hidden(closed_home: Path) -> None:
    (closed_home / "state-of-the-art").mkdir()
    carve = CarveSpec(abi=ABI, hidden=[str(closed_home / "state")], read_only=[], no_exec=[])

    assert is_granted(closed_home / "state-of-the-art" / "file", carve, READ)


def test_another_user_is_contained_by_the_mode_of_the_state_directory(closed_home: Path) -> None:
    found = containment_for(
        landlock_abi=0, account=STRANGER, state_dir=closed_home / "state", cwd="/"
    )

    assert found.contained
    assert found.carve is None


def test_another_user_is_not_contained_where_the_state_directory_is_open(
    closed_home: Path,
) -> None:
    (closed_home / "state").chmod(0o755)

    found = containment_for(
        landlock_abi=0, account=STRANGER, state_dir=closed_home / "state", cwd="/"
    )

    assert not found.contained
    assert "is open to user 54321" in found.why


def test_another_user_is_contained_before_the_state_directory_is_made(closed_home: Path) -> None:
    closed_home.chmod(0o777)

    found = containment_for(
        landlock_abi=ABI, account=STRANGER, state_dir=closed_home / "later", cwd="/"
    )

    assert found.contained
    assert found.why == ""


def test_the_state_directory_is_not_hidden_beside_a_place_where_the_user_makes_files(
    closed_home: Path,
) -> None:
    closed_home.chmod(0o777)

    found = containment_for(
        landlock_abi=ABI, account=STRANGER, state_dir=closed_home / "state", cwd="/"
    )

    assert found.contained
    assert found.carve is not None
    assert found.carve["hidden"] == []


def test_the_same_user_is_contained_by_landlock_alone(closed_home: Path) -> None:
    state, work = closed_home / "state", str(closed_home / "work")

    fenced = containment_for(landlock_abi=ABI, account=None, state_dir=state, cwd=work)
    bare = containment_for(landlock_abi=0, account=None, state_dir=state, cwd=work)

    assert fenced.contained
    assert fenced.carve is not None
    assert fenced.carve["hidden"] == [str(state)]
    assert not bare.contained
    assert "no Landlock" in bare.why


def test_the_same_user_is_not_contained_where_it_works_around_the_state_directory(
    closed_home: Path,
) -> None:
    found = containment_for(
        landlock_abi=ABI, account=None, state_dir=closed_home / "state", cwd=str(closed_home)
    )

    assert not found.contained
    assert "state directory" in found.why


def test_a_link_to_a_directory_around_the_state_directory_does_not_hide_that_it_is_one(
    closed_home: Path,
) -> None:
    (closed_home / "work" / "up").symlink_to(closed_home)

    found = containment_for(
        landlock_abi=ABI,
        account=None,
        state_dir=closed_home / "state",
        cwd=str(closed_home / "work" / "up"),
    )

    assert not found.contained


def test_an_old_landlock_says_that_it_lets_signals_through(closed_home: Path) -> None:
    found = containment_for(
        landlock_abi=ABI_SIGNAL - 1, account=None, state_dir=closed_home / "state", cwd="/usr"
    )

    assert found.contained
    assert "signalling" in found.why


@pytest.mark.parametrize("user", ["root", "no-such-user-here"])
def test_commands_run_as_no_user_that_is_missing_or_root(user: str) -> None:
    with pytest.raises(CapabilityMissingError, match=user):
        account_of(user)


def test_an_account_may_write_what_its_mode_says(tmp_path: Path) -> None:
    mine = Account(uid=os.getuid(), gid=os.getgid())
    tmp_path.chmod(0o700)

    assert mine.may_write(tmp_path)
    assert not STRANGER.may_write(tmp_path)
    assert STRANGER.is_kept_out_of(tmp_path)
    assert not mine.is_kept_out_of(tmp_path)


def test_a_search_path_is_left_with_what_an_account_can_enter(tmp_path: Path) -> None:
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "closed" / "bin")

    usual = "/usr/local/bin:/usr/bin"
    mine = Account(uid=os.getuid(), gid=os.getgid())
    closed = f"{tmp_path}/closed/bin:{tmp_path}/link"

    assert STRANGER.reachable(f"{closed}:{usual}") == usual
    assert mine.reachable(f"{closed}:{tmp_path}/open/bin") == f"{closed}:{tmp_path}/open/bin"
