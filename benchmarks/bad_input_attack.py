"""Clients that hold connections, silent or trickling; each is opened again when it is closed.

Plain sockets in one loop: what the attackers compute is taken from the sidecar's processors.
"""

import resource
import select
import socket
import time
from contextlib import suppress
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

# Each connection says something about once a second, a part of them in each of these steps.
STEPS = 20
OPENED_A_STEP = 100
_HEAD = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n"
_BODY = _HEAD + b"content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
# What each says at first, and then again every second.
ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "idle": (b"", b""),
    "slow heads": (_HEAD, b"x"),
    "slow bodies": (_BODY, b" "),
}


def attack(
    name: str,
    *,
    port: int,
    connections: int,
    opened: "Synchronized[int]",
    ready: Event,
    stop: Event,
) -> None:
    """Hold connections until `stop`; `opened` says how many were open at most at one time."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    first, then = ATTACKS[name]
    crowd = _Crowd(port, first)
    step = 0
    while not stop.is_set():
        ends = time.perf_counter() + 1 / STEPS
        crowd.open(min(OPENED_A_STEP, connections - len(crowd.sockets)))
        if then:
            crowd.say(then, step % STEPS)
        crowd.drop_closed()
        opened.value = max(opened.value, len(crowd.sockets))
        if len(crowd.sockets) >= connections * 0.95:
            ready.set()
        step += 1
        time.sleep(max(0.0, ends - time.perf_counter()))
    crowd.close()


class _Crowd:
    """Many clients that do the same."""

    def __init__(self, port: int, first: bytes) -> None:
        self._address = ("127.0.0.1", port)
        self._first = first
        self._closed = select.epoll()
        self.sockets: dict[int, socket.socket] = {}

    def open(self, count: int) -> None:
        """Open so many more."""
        for _ in range(count):
            client = socket.socket()
            client.settimeout(5)
            try:
                client.connect(self._address)
                client.setblocking(False)  # noqa: FBT003 - C signature
                if self._first:
                    client.send(self._first)
            except OSError:
                client.close()
                return
            self._closed.register(client, select.EPOLLIN | select.EPOLLRDHUP)
            self.sockets[client.fileno()] = client

    def say(self, words: bytes, step: int) -> None:
        """Have those whose turn it is say something."""
        for number, client in self.sockets.items():
            if number % STEPS == step:
                with suppress(OSError):
                    client.send(words)

    def drop_closed(self) -> None:
        """Forget those that were closed, or were told that they will be."""
        for number, _ in self._closed.poll(0, 1_000):
            self._closed.unregister(number)
            self.sockets.pop(number).close()

    def close(self) -> None:
        """Close all."""
        for client in self.sockets.values():
            client.close()
        self._closed.close()
