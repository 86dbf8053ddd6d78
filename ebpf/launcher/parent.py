"""Noticing that the process which started this one has ended."""

import os
import select


class Parent:
    """The process that started this one."""

    POLL_MS = 250  # between two looks, where the kernel cannot tell

    def __init__(self, pid: int | None) -> None:
        """Take who it should be; None takes whoever it is now."""
        self._pid = os.getppid() if pid is None else pid
        self._fd = self._opened()

    @property
    def is_gone(self) -> bool:
        """Tell whether it has ended: its children are somebody else's then."""
        return os.getppid() != self._pid

    def wait(self, *others: int, most_ms: int | None = None) -> None:
        """Return when it may have ended, one of the descriptors can be read, or time is over.

        A parent-death signal would not do: it speaks of the thread that started this process,
        and a process that it kills can end nothing any more.
        """
        poll = select.poll()
        for fd in others:
            poll.register(fd, select.POLLIN)
        if self._fd is not None and not self.is_gone:
            poll.register(self._fd, select.POLLIN)
        elif most_ms is None:
            most_ms = self.POLL_MS
        poll.poll(most_ms)

    def _opened(self) -> int | None:
        try:
            return os.pidfd_open(self._pid)
        except OSError:
            return None  # it is gone already, or this kernel has no such descriptors
