"""The terminal as an agent finds it and as it must be left."""

import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def kept_terminal() -> Iterator[None]:
    """Put the terminal back at the end as it was: its modes, and whose turn it is to read.

    An agent that is killed in the middle of a screen leaves it without echo, and to a group of
    processes that is gone.
    """
    terminal = _terminal()
    if terminal is None:
        yield
        return
    modes = termios.tcgetattr(terminal)
    group = os.tcgetpgrp(terminal)
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            # It may have been hung up meanwhile.
            with suppress(OSError, termios.error):
                if os.tcgetpgrp(terminal) != group:
                    os.tcsetpgrp(terminal, group)
                termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
        finally:
            signal.signal(signal.SIGTTOU, before)


def is_foreground() -> bool:
    """Tell whether what is typed at the terminal, Ctrl-C too, reaches this process's group."""
    terminal = _terminal()
    if terminal is None:
        return False
    with suppress(OSError):
        return os.tcgetpgrp(terminal) == os.getpgrp()
    return False


def _terminal() -> int | None:
    """Return the terminal that this process's session has, among what it was given."""
    for stream in (sys.__stdin__, sys.__stderr__, sys.__stdout__):
        with suppress(OSError, ValueError, AttributeError):
            number = stream.fileno()  # type: ignore[union-attr]
            if os.isatty(number):
                os.tcgetpgrp(number)  # fails where it is somebody else's
                return number
    return None
