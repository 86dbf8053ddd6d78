"""Whom the kernel killed for want of memory, by its own log."""

import os
import re
import weakref
from collections import deque
from pathlib import PurePosixPath

from ebpf.command import Level, Victim

KMSG = "/dev/kmsg"
_RECORD_BYTES_MAX = 8192
_READ_AT_ONCE_MAX = 20_000
_KEPT_MAX = 256

_KILL = re.compile(
    r"oom-kill:constraint=(?P<constraint>\w+),.*?"
    r"(?:oom_memcg=(?P<limit>[^,]*),|global_oom,)"
    r"task_memcg=(?P<home>[^,]*),task=(?P<comm>.*),pid=(?P<pid>\d+),uid=\d+"
)
_LEVELS = {0: Level.CALL, 1: Level.SESSION, 2: Level.TENANT}  # by how far above the call's group
_NOT_KERNEL = 8  # priorities from here on are of records that programs wrote


class KernelLog:
    """The log from now on; empty where it may not be read."""

    def __init__(self, path: str = KMSG) -> None:
        """Begin at the log's end."""
        self._kills: deque[tuple[int, str, str | None, int, str]] = deque(maxlen=_KEPT_MAX)
        self._count = 0
        self._log: int | None = None
        try:
            log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return  # containers and users without the right have none
        weakref.finalize(self, os.close, log)
        self._log = log
        try:
            os.lseek(log, 0, os.SEEK_END)
        except OSError:
            self._log = None

    def count(self) -> int:
        """Return how many kills it has told of so far."""
        for _ in range(_READ_AT_ONCE_MAX):
            record = self._next()
            if record is None:
                break
            found = _KILL.search(record)
            if found is not None and _is_kernels(record):
                self._count += 1
                kill = found["home"], found["limit"], int(found["pid"]), found["comm"]
                self._kills.append((self._count, *kill))
        return self._count

    def victim_in(self, path: tuple[str, ...], *, after: int) -> Victim | None:
        """Return the last process killed in a group, after so many kills, if any was.

        `path` leads to the group from the sidecar's base, whose name is unique, down.
        """
        self.count()
        place = "/" + "/".join(path)
        for number, home, limit, pid, comm in reversed(self._kills):
            if number > after and home.endswith(place):
                return Victim(pid=pid, comm=comm, level=_level_of(limit, home))
        return None

    def _next(self) -> str | None:
        """Return one record; empty where some were overwritten before they were read."""
        if self._log is None:
            return None
        try:
            return os.read(self._log, _RECORD_BYTES_MAX).decode(errors="replace")
        except BlockingIOError:
            return None
        except BrokenPipeError:
            return ""
        except OSError:
            self._log = None
            return None


def _is_kernels(record: str) -> bool:
    priority = record.partition(",")[0]
    return priority.isdigit() and int(priority) < _NOT_KERNEL


def _level_of(limit: str | None, home: str) -> Level:
    """Return whose limit it was, from how far above the call's group its group stands."""
    if limit is None:
        return Level.MACHINE
    above = len(PurePosixPath(home).parts) - len(PurePosixPath(limit).parts)
    return _LEVELS.get(above, Level.MACHINE)
