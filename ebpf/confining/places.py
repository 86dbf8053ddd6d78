"""Places of the network and refusals, as the programs in the kernel write them."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network
from pathlib import Path

from governor.confines import Destination, Network

Address = IPv4Address | IPv6Address

_BITS_BEFORE = 80  # the domain and the port, which come before the address
_MAPPED_BITS = 96
_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
_DNS_PORT = 53
_SOCKETS = {1: "ICMP", 58: "ICMP", 255: "raw"}
_WORD_BYTES = 4


class Kind(IntEnum):
    """What was refused."""

    CONNECT = 1
    SEND = 2
    LISTEN = 3
    PACKET = 4
    SOCKET = 5
    DEVICE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One thing that a domain's processes tried in vain, and who tried it first, if known."""

    domain: int
    kind: Kind
    place: str
    program: str
    count: int

    def __str__(self) -> str:
        """Return it as a model should read it."""
        who = self.program or "a process"
        match self.kind:
            case Kind.CONNECT:
                did = f"connect to {self.place}"
            case Kind.SEND | Kind.PACKET:
                did = f"send to {self.place}"
            case Kind.LISTEN:
                did = f"listen on {self.place}"
            case Kind.SOCKET:
                did = f"make a socket of {self.place}"
            case Kind.DEVICE:
                did = f"open the device {self.place}"
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{who} tried to {did}{times}"


def domain_of(group: Path) -> int:
    """Return the domain that a directory of the v2 hierarchy is, by its control group's id."""
    return group.stat().st_ino


def domain_key(domain: int) -> bytes:
    """Return a domain, named by the id of its control group, as a key."""
    return domain.to_bytes(8, sys.byteorder)


def place_key(domain: int, network: Network, port: int | None) -> bytes:
    """Return the key under which a domain may reach a network at a port, None being all."""
    bits, address = network.prefixlen, network.network_address.packed
    if isinstance(network, IPv4Network):
        bits, address = bits + _MAPPED_BITS, _MAPPED_PREFIX + address
    return b"".join(
        (
            (_BITS_BEFORE + bits).to_bytes(4, sys.byteorder),
            domain_key(domain),
            (port or 0).to_bytes(2, "big"),
            address,
        )
    )


def networks_of(destination: Destination, addresses: Iterable[Address]) -> Iterator[Network]:
    """Yield where a destination is, given the addresses that its name has now."""
    if destination.network is not None:
        yield destination.network
        return
    for address in addresses:
        if is_good_for_name(destination.name or "", address):
            yield ip_network(address)


def is_good_for_name(name: str, address: Address) -> bool:
    """Tell whether a name may lead to an address: a public one, or this machine by its own name.

    Whoever answers for a name could else lead to what is inside, such as a cloud's metadata; the
    rule can list such a network beside the name.
    """
    return address.is_global or (address.is_loopback and name == "localhost")


def resolver_keys(domain: int, resolvers: Sequence[Address]) -> list[bytes]:
    """Return the keys under which a domain may ask for names."""
    return [place_key(domain, ip_network(resolver), _DNS_PORT) for resolver in resolvers]


def resolvers_in(text: str) -> tuple[Address, ...]:
    """Return the servers that a resolv.conf names, as the C library would take them."""
    found: list[Address] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nameserver"] and len(words) > 1:
            try:
                found.append(ip_address(words[1]))
            except ValueError:
                continue
    return tuple(found[:3]) or (IPv4Address("127.0.0.1"),)


def refusal_of(key: bytes, value: bytes) -> Refusal:
    """Return a refusal as the kernel wrote it down."""
    kind = Kind(key[26])
    return Refusal(
        domain=int.from_bytes(key[:8], sys.byteorder),
        kind=kind,
        place=_place_words(kind, key[8:24], key[24:26]),
        program=value[8:24].partition(b"\0")[0].decode(errors="replace"),
        count=int.from_bytes(value[:8], sys.byteorder),
    )


def _place_words(kind: Kind, address: bytes, port: bytes) -> str:
    number = int.from_bytes(port, sys.byteorder)
    if kind is Kind.DEVICE:
        major, minor = (
            int.from_bytes(address[at : at + _WORD_BYTES], sys.byteorder) for at in (0, _WORD_BYTES)
        )
        return f"{chr(number)} {major}:{minor}"
    if kind is Kind.SOCKET:
        return f"the {_SOCKETS[number]} protocol" if number in _SOCKETS else f"protocol {number}"
    found = IPv6Address(address)
    shown = str(found.ipv4_mapped) if found.ipv4_mapped is not None else f"[{found}]"
    return f"{shown}:{int.from_bytes(port, 'big')}"
