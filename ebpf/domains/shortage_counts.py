"""How often memory limits left the kernel nothing but to kill, in both versions' words."""

import os
from collections.abc import Sequence
from pathlib import Path

from ebpf.domains.groups import read_field
from ebpf.errors import DomainError


class EventCount:
    """Version 1: the kernel's notices of a memory group, which it also gives for those above."""

    def __init__(self, directory: Path) -> None:
        """Ask for the notices; without them the count is unknown."""
        self._count = 0
        self._events: int | None = None
        try:
            self._events = _notices_of(directory)
        except OSError:
            return  # a kernel without them

    def read(self) -> int | None:
        """Return how many notices came."""
        if self._events is None:
            return None
        try:
            self._count += os.eventfd_read(self._events)
        except BlockingIOError:
            return self._count  # nothing new
        except OSError:
            return None
        return self._count

    def close(self) -> None:
        """Give the descriptor back; the kernel then forgets who asked."""
        if self._events is not None:
            os.close(self._events)
            self._events = None


def _notices_of(directory: Path) -> int:
    """Return a descriptor that counts the notices of a memory group.

    Raises:
        OSError: the kernel gives none.
    """
    events = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    opened = [events]
    try:
        opened.append(os.open(directory / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC))
        opened.append(os.open(directory / "cgroup.event_control", os.O_WRONLY | os.O_CLOEXEC))
        os.write(opened[2], f"{events} {opened[1]}".encode())
    except OSError:
        os.close(events)
        raise
    finally:
        for descriptor in opened[1:]:
            os.close(descriptor)
    return events


class FieldCount:
    """Version 2: what `memory.events.local` of some groups have counted since the beginning."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Start from what they hold now."""
        self._files = [path / "memory.events.local" for path in directories]
        self._before = self._sum()

    def read(self) -> int | None:
        """Return how much was added."""
        now = self._sum()
        return None if now is None or self._before is None else max(0, now - self._before)

    def close(self) -> None:
        """Hold nothing."""

    def _sum(self) -> int | None:
        try:
            return sum(read_field(file, "oom") for file in self._files if file.exists())
        except DomainError:
            return None
