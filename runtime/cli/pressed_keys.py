"""Single keys of a terminal, waited for; where there is none, nobody presses any."""

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def pressed_keys() -> Iterator[Callable[[float], str]]:
    """Yield what waits so many seconds for a key, and returns it, or nothing."""
    if not sys.stdin.isatty():
        never = threading.Event()

        def waited(seconds: float) -> str:
            never.wait(seconds)
            return ""

        yield waited
        return
    # Not everywhere; only for a terminal.
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def key_within(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        if not ready:
            return ""
        try:
            pressed = os.read(terminal, 1)
        except OSError:  # what a terminal says that has hung up
            pressed = b""
        if not pressed:
            raise KeyboardInterrupt  # nobody looks any more
        return pressed.decode(errors="replace")

    try:
        yield key_within
    finally:
        with suppress(termios.error):  # it has hung up
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
