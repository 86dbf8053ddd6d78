"""Control groups in three levels: what is shared, its sessions, their calls."""

from collections.abc import Mapping
from pathlib import Path

import anyio

from ebpf.capability import Host
from ebpf.domains.groups import (
    kill_group,
    read,
    read_field,
    remove_group,
    remove_groups,
    write,
)
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import CapabilityMissingError, DomainError
from ebpf.session_group import SessionGroup

_CONTROLLERS = ("memory", "cpu")

Places = Mapping[str, Path]


def places_of(host: Host) -> tuple[Places, str]:
    """Return under which directories a tree can be made, by controller, and the backend's name.

    Raises:
        CapabilityMissingError: there are no control groups with memory and cpu to write.
    """
    found = host.hierarchies
    if UNIFIED not in found:
        raise CapabilityMissingError("this host has no control groups of version 2")
    if all(name in found for name in _CONTROLLERS):
        return {name: found[name].own for name in (*_CONTROLLERS, UNIFIED)}, "hybrid"
    # With version 2 a group that has processes cannot have groups with controllers below it.
    unified = found[UNIFIED]
    place = unified.mount if unified.own == unified.mount else unified.own.parent
    try:
        offered = read(place / "cgroup.subtree_control").split()
    except DomainError as error:
        raise CapabilityMissingError(str(error)) from error
    missing = [name for name in _CONTROLLERS if name not in offered]
    if missing:
        message = f"{place}: {', '.join(missing)} cannot be had here"
        raise CapabilityMissingError(message)
    return dict.fromkeys((*_CONTROLLERS, UNIFIED), place), "v2"


class CallGroup:
    """The group that one process tree lives in."""

    def __init__(self, directories: Places) -> None:
        """Stand for directories that exist."""
        self._directories = directories
        self._memory = directories["memory"]
        self._is_v2 = self._memory == directories[UNIFIED]

    @property
    def join(self) -> tuple[str, ...]:
        """Return the files that a process writes itself into, to be inside."""
        groups = dict.fromkeys(self._directories.values())
        return tuple(str(path / "cgroup.procs") for path in groups)

    @property
    def unified(self) -> Path:
        """Return its directory in the v2 hierarchy."""
        return self._directories[UNIFIED]

    def memory_kills(self) -> int:
        """Return how many processes the kernel has killed here for want of memory.

        Raises:
            DomainError: it cannot be read.
        """
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        return read_field(self._memory / name, "oom_kill")

    async def end(self) -> None:
        """Kill what is left inside and remove the group.

        Raises:
            DomainError: it could not be emptied or removed.
        """
        await kill_group(self._directories[UNIFIED])
        await remove_groups(dict.fromkeys(self._directories.values()))


class SessionTree:
    """What is shared, and the sessions in it; for as long as the block around it."""

    def __init__(self, places: Places, *, name: str) -> None:
        """Make the outermost group.

        Raises:
            DomainError: the kernel refused.
        """
        self._is_v2 = len(set(places.values())) == 1
        self._root = _made({key: place / name for key, place in places.items()})
        self._sessions: dict[str, Places] = {}
        self._hand_down(self._root)
        self.root = SessionGroup(self._root)

    def limit(self, memory_bytes: int, *, session: str | None = None) -> None:
        """Let what is shared, or one session, hold no more than so much memory, and no swap.

        Raises:
            DomainError: the kernel refused.
        """
        memory = self._of(session)["memory"]
        if not self._is_v2:
            write(memory / "memory.limit_in_bytes", str(memory_bytes))
            write(memory / "memory.swappiness", "0")
            return
        write(memory / "memory.max", str(memory_bytes))
        if (memory / "memory.swap.max").exists():
            write(memory / "memory.swap.max", "0")

    def slow_above(self, memory_bytes: int, *, session: str) -> bool:
        """Have the kernel slow a session down above so much memory; tell whether it can."""
        path = self._of(session)["memory"] / "memory.high"
        if not self._is_v2:
            return False
        write(path, str(memory_bytes))
        return True

    def peak_bytes(self) -> int | None:
        """Return the most that all held together; None where the kernel does not keep it."""
        name = "memory.peak" if self._is_v2 else "memory.max_usage_in_bytes"
        try:
            return int(read(self._root["memory"] / name))
        except DomainError:
            return None

    def session(self, name: str) -> SessionGroup:
        """Return the group of a session, made now.

        Raises:
            DomainError: the kernel refused.
        """
        self._sessions[name] = _made({key: path / name for key, path in self._root.items()})
        self._hand_down(self._sessions[name])
        return SessionGroup(self._sessions[name])

    def call(self, session: str, name: str) -> CallGroup:
        """Return the group of one call in a session, made now.

        Raises:
            DomainError: the kernel refused.
        """
        below = self._sessions[session]
        return CallGroup(_made({key: path / name for key, path in below.items()}))

    async def remove(self) -> int:
        """Kill and remove everything; return how many groups of calls were left behind.

        Raises:
            DomainError: something could not be removed.
        """
        left = 0
        with anyio.CancelScope(shield=True):
            await kill_group(self._root[UNIFIED])
            for places in self._sessions.values():
                calls = [
                    child
                    for path in dict.fromkeys(places.values())
                    for child in path.iterdir()
                    if child.is_dir()
                ]
                left += len({child.name for child in calls})
                await remove_groups(calls)
                await remove_groups(dict.fromkeys(places.values()))
            await remove_groups(dict.fromkeys(self._root.values()))
        return left

    def _of(self, session: str | None) -> Places:
        return self._root if session is None else self._sessions[session]

    def _hand_down(self, places: Places) -> None:
        if self._is_v2:
            write(places[UNIFIED] / "cgroup.subtree_control", "+memory +cpu")


def _made(places: Places) -> Places:
    """Make the directories; leave none where one cannot be made."""
    made: list[Path] = []
    try:
        for path in dict.fromkeys(places.values()):
            path.mkdir()
            made.append(path)
    except OSError as error:
        for path in made:
            remove_group(path)
        message = f"{path}: the control group cannot be made"
        raise DomainError(message) from error
    return places
