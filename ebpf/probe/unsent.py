"""What the kernel still has to send for sockets of a group, also when nobody has them any more.

A process that ends leaves up to some megabytes behind in each TCP socket, and the kernel goes on
sending them.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2
_CGROUP_ID = 21
# Established, the three ways of being half closed, and both that wait for the last acknowledgement.
_STATES = sum(1 << state for state in (1, 4, 8, 9, 11))
_FAMILIES = (2, 10)  # IPv4 and IPv6
_TCP = 6
_READ_BYTES = 1 << 16

_HEADER = Struct("=IHHII")
_REQUEST = Struct("=BBBxI48x")
_SOCKET = Struct("=4x48xIIIII")  # expires, received, to be sent, user, inode
_ATTRIBUTE = Struct("=HH")
_ID = Struct("=Q")


def unsent_bytes(group_id: int) -> int | None:
    """Return how much TCP has yet to get acknowledged for a group; None if the kernel won't say."""
    total = 0
    with (
        suppress(OSError),
        socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        ) as asking,
    ):
        asking.settimeout(1)
        for family in _FAMILIES:
            body = _REQUEST.pack(family, _TCP, 0, _STATES)
            asking.send(
                _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + body
            )
            for waiting, owner in _answers(asking):
                if owner is None:
                    return None  # a kernel before 5.7
                total += waiting if owner == group_id else 0
        return total
    return None


def _answers(asking: socket.socket) -> Iterator[tuple[int, int | None]]:
    """Yield what each socket has yet to send, and whose it is.

    Raises:
        OSError: the kernel does not answer.
    """
    while True:
        part = asking.recv(_READ_BYTES)
        at = 0
        while at + _HEADER.size <= len(part):
            length, kind, *_ = _HEADER.unpack_from(part, at)
            if kind == _DONE:
                return
            if kind == _ERROR:
                message = "the kernel lists no sockets"
                raise OSError(message)
            yield _answer(part[at + _HEADER.size : at + length])
            at += length + 3 & ~3


def _answer(body: bytes) -> tuple[int, int | None]:
    waiting: int = _SOCKET.unpack_from(body)[2]
    at = _SOCKET.size
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if kind == _CGROUP_ID:
            owner: int = _ID.unpack_from(body, at + _ATTRIBUTE.size)[0]
            return waiting, owner
        at += max(length, _ATTRIBUTE.size) + 3 & ~3
    return waiting, None
