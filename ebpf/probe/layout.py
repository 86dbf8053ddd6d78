"""What the programs and this process write into shared memory: `ebpf/programs/domains.h`."""

import socket
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

UNLIMITED = 2**64 - 1
_LEVEL_NOT_FOUND = 64

_CONFIG = Struct("=II")
_QUESTION = Struct("=QII")
_PEER = "16sHBB"
_DOMAIN = Struct(f"=18Q{_PEER}HH")
_RECORD = Struct(f"=QIII{_PEER}16s96s")
_ID = Struct("=Q")

CONFIG_BYTES, DOMAIN_BYTES, RECORD_BYTES = _CONFIG.size, _DOMAIN.size, _RECORD.size
ONLY = b"\0\0\0\0"  # the key where there is one entry

_FAMILY_INET = 2  # the kernel's numbers, on whatever system this is read
_FAMILY_INET6 = 10
_IPV4_BYTES = 4


class Kind(IntEnum):
    """What a record tells of."""

    CONNECT = 1
    SEND = 2
    EXEC = 3
    FORK = 4
    EXIT = 5
    OPEN = 6
    VICTIM = 7


class Over(IntEnum):
    """Whose limit a packet would have gone over."""

    NONE = 0
    OWN = 1
    ABOVE = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """An address that something was sent to; `port` is 0 where the protocol has none."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as it stands in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the kernel has counted of one domain.

    `refused` is whom the first packet was for that was not let out. `untold` are events beyond
    the domain's share of the ring, `lost` those that found the ring full.
    """

    egress_bytes: int
    egress_packets: int
    ingress_bytes: int
    ingress_packets: int
    loopback_bytes: int
    refused_bytes: int
    refused_packets: int
    connections: int
    executions: int
    forks: int
    exits: int
    opens: int
    victims: int
    untold: int
    lost: int
    over: Over
    refused: Peer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One event in a domain.

    `detail` is the new process of a fork, the status of an exit, and the parent of a process
    that became another program.
    """

    domain: int
    kind: Kind
    pid: int
    detail: int
    peer: Peer | None
    command: str
    text: str


def id_bytes(group_id: int) -> bytes:
    """Return the key of a domain."""
    return _ID.pack(group_id)


def config_bytes(*, first_level: int, has_free_loopback: bool) -> bytes:
    """Return the configuration of all programs."""
    return _CONFIG.pack(first_level, int(has_free_loopback))


def question_bytes(group_id: int) -> bytes:
    """Return what a program that is run once is asked about."""
    return _QUESTION.pack(group_id, _LEVEL_NOT_FOUND, 0)


def found_level(question: bytes) -> int | None:
    """Return how deep below the root the group is that was asked about, else None."""
    level: int = _QUESTION.unpack(question)[1]
    return None if level == _LEVEL_NOT_FOUND else level


def new_domain_bytes(*, egress_bytes_max: int | None, records_max: int) -> bytes:
    """Return a domain of which nothing has been counted yet."""
    limit = UNLIMITED if egress_bytes_max is None else egress_bytes_max
    figures = [0] * 18
    figures[0], figures[14] = limit, records_max
    return _DOMAIN.pack(*figures, b"", 0, 0, 0, 0, 0)


def counted_of(value: bytes) -> Counted:
    """Return what a domain's entry says."""
    figures = _DOMAIN.unpack(value)
    address, port, family, _protocol, over, _is_shut = figures[18:]
    return Counted(
        egress_bytes=figures[1],
        egress_packets=figures[2],
        ingress_bytes=figures[3],
        ingress_packets=figures[4],
        loopback_bytes=figures[5],
        refused_bytes=figures[6],
        refused_packets=figures[7],
        connections=figures[8],
        executions=figures[9],
        forks=figures[10],
        exits=figures[11],
        opens=figures[12],
        victims=figures[13],
        untold=figures[16],
        lost=figures[17],
        over=Over(over),
        refused=_peer_of(address, port, family),
    )


def record_of(value: bytes) -> Record:
    """Return what one record says."""
    fields = _RECORD.unpack(value[: _RECORD.size])
    domain, kind, pid, detail, address, port, family, _protocol, command, text = fields
    return Record(
        domain=domain,
        kind=Kind(kind),
        pid=pid,
        detail=detail,
        peer=_peer_of(address, port, family),
        command=_text(command),
        text=_text(text),
    )


def _peer_of(address: bytes, port: int, family: int) -> Peer | None:
    if family == _FAMILY_INET:
        return Peer(socket.inet_ntop(socket.AF_INET, address[:_IPV4_BYTES]), port)
    if family == _FAMILY_INET6:
        return Peer(socket.inet_ntop(socket.AF_INET6, address), port)
    return None


def _text(value: bytes) -> str:
    """Return what stands before the first NUL, on one line: a command chooses its own name."""
    whole = value.split(b"\0", 1)[0].decode(errors="replace")
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in whole)
