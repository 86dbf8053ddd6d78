"""Being woken by the kernel when tasks have stood still for too long."""

import os
import select
from contextlib import suppress
from pathlib import Path

import anyio

from ebpf.errors import DomainError

# Where the kernel takes windows of other lengths only from some, it takes this from everybody.
WINDOW_US = 2_000_000


class PressureTrigger:
    """One threshold on one pressure file: of the machine, or of a control group."""

    def __init__(self, path: Path, *, stall_us: int) -> None:
        """Ask to be woken when some task has stood still for `stall_us` of two seconds.

        Raises:
            DomainError: the kernel has no such file, or refuses the threshold.
        """
        self._poll = select.epoll()
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._file, f"some {stall_us} {WINDOW_US}\0".encode())
            self._poll.register(self._file, select.EPOLLPRI)
        except OSError as error:
            self.close()
            message = f"{path}: no trigger for {stall_us} us in {WINDOW_US} us"
            raise DomainError(message) from error

    async def wait(self) -> None:
        """Return when the threshold was crossed; the kernel tells once in each window.

        Raises:
            DomainError: the control group that it was of is gone.
        """
        await anyio.wait_readable(self._poll.fileno())
        # To have been told is all there is to know: the kernel forgets it with the first look.
        if any(events & select.EPOLLERR for _, events in self._poll.poll(0)):
            raise DomainError("the control group that was watched is gone")

    def close(self) -> None:
        """Ask no longer."""
        with suppress(OSError):
            self._poll.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None
