"""What the suites of metering share: a server that swallows, and commands that send."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ebpf.executor import Command
from tests.ebpf.commands import python

QUIET_SECONDS = 1.0


class Sink:
    """A server on the loopback device that reads what comes and counts it."""

    def __init__(self) -> None:
        self.received = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._swallow, args=(connection,), daemon=True).start()

    def _swallow(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while part := connection.recv(1 << 16):
                self.received += len(part)

    def wait_for_quiet(self) -> None:
        """Return when nothing has come for as long as TCP waits before it sends again."""
        before = -1
        while before != self.received:
            before = self.received
            time.sleep(QUIET_SECONDS)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(timeout=60)


@contextmanager
def sink() -> Iterator[Sink]:
    server = Sink()
    try:
        yield server
    finally:
        server.close()


def sends(port: int, count: int) -> Command:
    """Return a command that sends so many bytes over one TCP connection, and waits for the end."""
    return python(
        "import socket\n"
        f"s = socket.create_connection(('127.0.0.1', {port}))\n"
        f"s.sendall(b'x' * {count})\n"
        "s.shutdown(socket.SHUT_WR)\n"
        "s.recv(1)\n"
    )


def datagrams(count: int, each: int, port: int = 9) -> Command:
    """Return a command that sends datagrams until one is refused, and prints how many went."""
    return python(
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "went = 0\n"
        "try:\n"
        f"    for _ in range({count}):\n"
        f"        s.sendto(b'x' * {each}, ('127.0.0.1', {port}))\n"
        "        went += 1\n"
        "except OSError as error:\n"
        "    print(error)\n"
        "print(went, flush=True)\n"
    )
