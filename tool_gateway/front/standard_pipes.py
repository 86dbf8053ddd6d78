"""Standard input and output as streams whose waiting can be given up.

The SDK reads and writes them in threads, which nobody can call back: a server that is asked
to stop would wait for its client's next word.
"""

import logging
import os
import selectors
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel

from tool_gateway.errors import UpstreamFailedError
from tool_gateway.upstreams.lines import LineCutter

logger = logging.getLogger(__name__)

LINE_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
# What a pipe that can be written to takes without a wait, on every system.
_WRITE_BYTES = 512 if sys.platform == "darwin" else 4096


@contextmanager
def standard_pipes() -> Iterator[tuple["LinesIn", "TextOut"]]:
    """Yield the input and the output of this process, which are nobody else's during the block.

    Whoever else reads finds the end, and what others print goes to standard error.
    """
    sys.stdout.flush()
    own_in, own_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield LinesIn(own_in), TextOut(own_out)
    finally:
        sys.stdout.flush()
        os.dup2(own_in, 0)
        os.dup2(own_out, 1)
        for fd in (own_in, own_out, nothing):
            os.close(fd)


class LinesIn:
    """The lines of a descriptor, as text."""

    def __init__(self, fd: int) -> None:
        """Take an open descriptor."""
        self._fd = fd
        self._is_file = _never_waits(fd)
        self._cutter = LineCutter(bytes_max=LINE_BYTES_MAX)
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> "LinesIn":
        return self

    async def __anext__(self) -> str:
        """Return the next line; one that does not end is the end of the input."""
        while not self._lines:
            await _ready(self._fd, is_file=self._is_file, to_write=False)
            part = os.read(self._fd, _READ_BYTES)
            if not part:
                raise StopAsyncIteration
            try:
                self._lines.extend(self._cutter.cut(part))
            except UpstreamFailedError as error:
                logger.error("the client is not heard any more: %s", error)  # noqa: TRY400 - theirs
                raise StopAsyncIteration from None
        return self._lines.popleft().decode(errors="replace")


class TextOut:
    """A descriptor that text is written to."""

    def __init__(self, fd: int) -> None:
        """Take an open descriptor."""
        self._fd = fd
        self._is_file = _never_waits(fd)

    async def write(self, text: str) -> None:
        """Write the whole text, as fast as it is read."""
        left = memoryview(text.encode())
        while left:
            await _ready(self._fd, is_file=self._is_file, to_write=True)
            left = left[os.write(self._fd, left[:_WRITE_BYTES]) :]

    async def flush(self) -> None:
        """Do nothing: nothing is held back."""


def _never_waits(fd: int) -> bool:
    """Tell whether `fd` is a file, or a device that the system will not watch: one like /dev/null.

    It is asked, for of two devices one is a terminal and the other an empty input.
    """
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    with selectors.DefaultSelector() as watching:
        try:
            watching.register(fd, selectors.EVENT_READ)
        except (OSError, ValueError):
            return True
    return False


async def _ready(fd: int, *, is_file: bool, to_write: bool) -> None:
    """Wait until reading or writing will not wait; with a file it never does."""
    if is_file:
        await anyio.lowlevel.checkpoint()
    elif to_write:
        await anyio.wait_writable(fd)
    else:
        await anyio.wait_readable(fd)
