"""Freezing and killing whole groups: `cgroup.kill` of version 2, the freezer of version 1."""

import os
import signal
from pathlib import Path

import anyio

from ebpf.domains import groups
from ebpf.domains.groups import child_groups, is_there, read, write
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import DomainError

FREEZER = "freezer"
_WAIT_SECONDS_FIRST = 0.001
_WAIT_SECONDS_MAX = 0.05
# While a group is killed: as long as it takes to be stopped, and not longer than a thread that
# the kernel cannot stop keeps it.
_STOP_SECONDS_MAX = 0.5


class UnifiedReins:
    """The kernel's own: one write reaches every process, and each that enters meanwhile."""

    hierarchy = UNIFIED

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the processes of the group."""
        return _members(directory)

    async def freeze(self, directory: Path) -> None:
        """Freeze, and wait until the kernel says so."""
        await groups.freeze_group(directory)

    def thaw(self, directory: Path) -> None:
        """Thaw."""
        groups.thaw_group(directory)

    async def kill(self, directory: Path) -> None:
        """Kill, and wait until the kernel says that none is left."""
        await groups.kill_group(directory)


class FreezerReins:
    """Without version 2: a group is stopped whole, then each of its processes is killed.

    Nothing in a frozen group can fork, so the list of its processes is complete.
    """

    hierarchy = FREEZER

    def members(self, directory: Path) -> tuple[int, ...]:
        """Return the processes of the group."""
        return _members(directory)

    async def freeze(self, directory: Path) -> None:
        """Freeze, and wait until the kernel says so."""
        write(directory / "freezer.state", "FROZEN")
        if await _is_frozen_within(directory, groups.FREEZE_SECONDS_MAX):
            return
        self.thaw(directory)
        message = f"{directory.name}: not frozen after {groups.FREEZE_SECONDS_MAX} s"
        raise DomainError(message)

    def thaw(self, directory: Path) -> None:
        """Thaw."""
        write(directory / "freezer.state", "THAWED")

    async def kill(self, directory: Path) -> None:
        """Freeze, kill and thaw until nothing is left."""
        wait = _WAIT_SECONDS_FIRST
        with anyio.move_on_after(groups.KILL_SECONDS_MAX):
            while True:
                try:
                    if not _tree_members(directory):
                        self.thaw(directory)  # a frozen group would hold whoever enters late
                        return
                    write(directory / "freezer.state", "FROZEN")
                    await _is_frozen_within(directory, _STOP_SECONDS_MAX)
                    _kill_once(directory)
                    self.thaw(directory)
                except DomainError:
                    if is_there(directory):
                        raise
                    return  # somebody else ended it, and only what is empty can be removed
                await anyio.sleep(wait)
                wait = min(wait * 2, _WAIT_SECONDS_MAX)
        message = f"{directory.name}: processes survived SIGKILL for {groups.KILL_SECONDS_MAX} s"
        raise DomainError(message)


async def _is_frozen_within(directory: Path, seconds: float) -> bool:
    wait = _WAIT_SECONDS_FIRST
    with anyio.move_on_after(seconds):
        while read(directory / "freezer.state").strip() != "FROZEN":
            await anyio.sleep(wait)
            wait = min(wait * 2, _WAIT_SECONDS_MAX)
        return True
    return False


def _kill_once(directory: Path) -> None:
    """Send SIGKILL to each process that is in the group and beneath it."""
    held: dict[int, int] = {}
    try:
        for pid in _tree_members(directory):
            try:
                held[pid] = os.pidfd_open(pid)
            except OSError:
                continue  # it ended meanwhile
        # An id may have changed hands before it was held; whoever is listed now is meant.
        for pid in _tree_members(directory):
            if pid in held:
                try:
                    signal.pidfd_send_signal(held[pid], signal.SIGKILL)
                except OSError:
                    continue
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _members(directory: Path) -> tuple[int, ...]:
    return tuple(map(int, read(directory / "cgroup.procs").split()))


def _tree_members(directory: Path) -> tuple[int, ...]:
    found = _members(directory)
    for child in child_groups(directory):
        found += _tree_members(child)
    return found
