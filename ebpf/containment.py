"""What keeps a command away from the sidecar: another user, Landlock, or nothing."""

import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebpf.errors import CapabilityMissingError
from ebpf.launcher.landlock import ABI_SIGNAL
from ebpf.launcher.spec import CarveSpec
from governor.confines import FREE, Confines

_CONTROL_GROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user that commands run as."""

    uid: int
    gid: int

    def may_write(self, directory: Path) -> bool:
        """Tell whether this user, without other groups, can make files in a directory."""
        try:
            status = directory.stat()
        except OSError:
            return False
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IWUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IWGRP)
        return bool(status.st_mode & stat.S_IWOTH)

    def may_enter(self, directory: Path) -> bool:
        """Tell whether this user, without other groups, can reach what is in a directory.

        One that is not there is as good as its parents.
        """
        return all(map(self._may_pass, (directory, *directory.parents)))

    def _may_pass(self, directory: Path) -> bool:
        try:
            status = directory.stat()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def reachable(self, search_path: str) -> str:
        """Return the entries of a search path that this user can enter.

        A shell that is refused one says of every program that it does not find that it may not
        be run.
        """
        entries = search_path.split(os.pathsep)
        kept = [one for one in entries if self.may_enter(Path(os.path.realpath(one)))]
        return os.pathsep.join(kept)

    def is_kept_out_of(self, directory: Path) -> bool:
        """Tell whether this user can neither list, enter nor change a directory.

        One that is not there yet holds nothing. The sidecar makes it for itself alone; made by
        somebody else it is found open when the next command asks.
        """
        try:
            status = directory.stat()
        except FileNotFoundError:
            return True
        return status.st_uid != self.uid and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """Whether a command is kept away from the sidecar, by what, and else why not."""

    contained: bool
    by: str
    why: str
    carve: CarveSpec | None


def account_of(user: str) -> Account:
    """Return the account of an unprivileged user.

    Raises:
        CapabilityMissingError: there is no such user, or it is root.
    """
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        message = f"there is no user {user!r} to run commands as"
        raise CapabilityMissingError(message) from error
    if entry.pw_uid == 0 or entry.pw_gid == 0:
        message = f"commands must not run as {user!r}, which has the rights of root"
        raise CapabilityMissingError(message)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def containment_for(
    *,
    landlock_abi: int,
    account: Account | None,
    state_dir: Path,
    cwd: str | None,
    confines: Confines = FREE,
) -> Containment:
    """Decide what can stand between one command and the sidecar, and what a rule withholds.

    `account` is the other user that the command runs as, None where it stays the sidecar's.
    """
    found = _containment_for(
        landlock_abi=landlock_abi, account=account, state_dir=state_dir, cwd=cwd
    )
    if found.carve is None:
        return found
    carve = CarveSpec(
        abi=landlock_abi,
        hidden=[*found.carve["hidden"], *_real(confines.hidden)],
        read_only=[*found.carve["read_only"], *_real(confines.read_only)],
        no_exec=_real(confines.no_exec_from),
    )
    return replace(found, carve=carve)


def _real(paths: Sequence[str]) -> list[str]:
    """Return the places themselves: nothing is withheld at a link that leads to one."""
    return [os.path.realpath(path) for path in paths]


def _containment_for(
    *, landlock_abi: int, account: Account | None, state_dir: Path, cwd: str | None
) -> Containment:
    if account is None:
        return _same_user(landlock_abi, state_dir, cwd)
    # Files that are made later beside a hidden directory are out of reach for everybody, so
    # next to a place where the user can write (`/tmp`) the carve would do harm. A second
    # fence is not worth a broken command.
    hide = landlock_abi > 0 and not any(account.may_write(path) for path in state_dir.parents)
    kept_out = account.is_kept_out_of(state_dir)
    carve = _carve(landlock_abi, hidden=[str(state_dir)] if hide else [])
    by = f"user {account.uid}" + (f", landlock {landlock_abi}" if landlock_abi else "")
    if kept_out or hide:
        return Containment(contained=True, by=by, why="", carve=carve)
    why = f"{state_dir} is open to user {account.uid} and cannot be hidden from it"
    return Containment(contained=False, by=by, why=why, carve=carve)


def _same_user(landlock_abi: int, state_dir: Path, cwd: str | None) -> Containment:
    if not landlock_abi:
        why = "the command runs as the sidecar's user, and this kernel has no Landlock"
        return Containment(contained=False, by="nothing", why=why, carve=None)
    by = f"landlock {landlock_abi}"
    directory = Path("/") if cwd is None else Path(cwd).resolve()
    if directory in state_dir.parents and os.access(directory, os.W_OK):
        why = (
            "the command runs as the sidecar's user, in a directory that holds the state "
            "directory: hiding that would also keep it from making files"
        )
        carve = _carve(landlock_abi, hidden=[])
        return Containment(contained=False, by=by, why=why, carve=carve)
    why = ""
    if landlock_abi < ABI_SIGNAL:
        why = f"Landlock {landlock_abi} does not keep the command from signalling the sidecar"
    carve = _carve(landlock_abi, hidden=[str(state_dir)])
    return Containment(contained=True, by=by, why=why, carve=carve)


def _carve(landlock_abi: int, *, hidden: list[str]) -> CarveSpec | None:
    if not landlock_abi:
        return None
    return CarveSpec(abi=landlock_abi, hidden=hidden, read_only=[_CONTROL_GROUPS], no_exec=[])
