"""Ports that a test chooses before somebody else listens there."""

import itertools
import os
import socket

# Below those that the system gives to whoever asks for any, so that nobody is given one meanwhile.
_FIRST, _COUNT = 20_000, 10_000
_numbers = itertools.count(os.getpid() * 131)


def a_port() -> int:
    """Return a port of the loopback device that is free, and of which nobody else is told."""
    for number in _numbers:
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind(("127.0.0.1", port := _FIRST + number % _COUNT))
            except OSError:
                continue
            return port
    raise AssertionError("numbers do not end")
