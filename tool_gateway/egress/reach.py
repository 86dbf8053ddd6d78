"""Which addresses a connection may go to: a pure decision about addresses, not about names.

A name says nothing about where it leads, and a string that looks like no address can still be
one to the resolver (`2130706433`, `0x7f.1`). So what is judged is every address that the
resolver returned, and the connection goes to exactly that address.
"""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class AddressKind(StrEnum):
    """What an address is, in the words of a refusal."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address"
    PRIVATE = "a private address"
    SHARED = "an address of a carrier's shared network"
    LINK_LOCAL = "a link-local address"
    METADATA = "the address of a cloud's metadata service"
    TUNNEL = "a tunnel's address, which hides another"
    SPECIAL = "an address that no server has"


# What `allow_private` opens. The others only a network that is listed by itself does.
PRIVATE_KINDS = frozenset({AddressKind.LOOPBACK, AddressKind.PRIVATE, AddressKind.SHARED})
# AWS, Azure and Google; containers on AWS; Alibaba; Oracle; and those that have one over IPv6.
_METADATA = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200"),
            *("192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        ),
    )
)
_PRIVATE_V4 = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_SHARED_V4 = IPv4Network("100.64.0.0/10")
_PRIVATE_V6 = tuple(map(IPv6Network, ("fc00::/7", "fec0::/10")))
# Translated by the network itself (RFC 6052): the address that counts is the embedded one.
_NAT64 = IPv6Network("64:ff9b::/96")
# 6to4 and Teredo: where they come out is for relays to say that nobody here knows.
_TUNNELS = tuple(map(IPv6Network, ("2002::/16", "2001::/32")))
# IPv4-compatible, and the range of networks' own translators: nothing public has such a one.
_SPECIAL_V6 = tuple(map(IPv6Network, ("::/96", "64:ff9b:1::/48")))
_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a URL may lead beside public addresses.

    `is_named`: the operator wrote the URL himself, so that an address of its own in it, or
    `localhost`, is what he meant; a URL that a server told is never named. `is_private` opens
    loopback, private and shared networks to names, `networks` whatever is listed.
    """

    is_named: bool = True
    is_private: bool = False
    networks: tuple[Network, ...] = ()


NAMED = Reach()
LEARNED = Reach(is_named=False)


def refusal_of(address: Address, *, host: str, reach: Reach) -> AddressKind | None:
    """Return what `address` is if a connection to `host` may not go there, else None."""
    address = _without_zone(address)
    plain = _embedded(address)
    if any(_is_in(address, network) or _is_in(plain, network) for network in reach.networks):
        return None
    kind = kind_of(address)
    if kind is AddressKind.PUBLIC:
        return None
    if reach.is_private and kind in PRIVATE_KINDS:
        return None
    if reach.is_named and kind is not AddressKind.METADATA and _is_meant(address, kind, host):
        return None
    return kind


def kind_of(address: Address) -> AddressKind:
    """Return what an address is, judged by the one that is embedded in it if there is one."""
    address = _embedded(_without_zone(address))
    if address in _METADATA:
        return AddressKind.METADATA
    if address.is_loopback:
        return AddressKind.LOOPBACK
    if address.is_link_local:
        return AddressKind.LINK_LOCAL
    return _kind_v4(address) if isinstance(address, IPv4Address) else _kind_v6(address)


def literal(host: str) -> Address | None:
    """Return the address that `host` is, None where it is a name; a zone is left out.

    A zone belongs to version 6: behind another address it makes a name that nobody has.
    """
    try:
        return _without_zone(ip_address(host))
    except ValueError:
        return None


def network_of(text: str) -> Network:
    """Return a network as the configuration has it; a single address is a network of one.

    Raises:
        ValueError: it is none, or has bits beyond its prefix.
    """
    return ip_network(text)


def is_loopback_host(host: str) -> bool:
    """Tell whether `host` is this machine by the way it is written."""
    address = literal(host)
    return host.lower() == _LOCALHOST if address is None else address.is_loopback


def _kind_v4(address: IPv4Address) -> AddressKind:
    if any(address in network for network in _PRIVATE_V4):
        return AddressKind.PRIVATE
    if address in _SHARED_V4:
        return AddressKind.SHARED
    return _public_or_special(address)


def _kind_v6(address: IPv6Address) -> AddressKind:
    if any(address in network for network in _PRIVATE_V6):
        return AddressKind.PRIVATE
    if any(address in network for network in _TUNNELS):
        return AddressKind.TUNNEL
    if any(address in network for network in _SPECIAL_V6):
        return AddressKind.SPECIAL
    return _public_or_special(address)


def _public_or_special(address: Address) -> AddressKind:
    # To the library some addresses that no server has are global: multicast, for one.
    is_public = address.is_global and not (address.is_multicast or address.is_reserved)
    return AddressKind.PUBLIC if is_public else AddressKind.SPECIAL


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that is written into an IPv6 one, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _without_zone(address: Address) -> Address:
    return IPv6Address(int(address)) if isinstance(address, IPv6Address) else address


def _is_in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _is_meant(address: Address, kind: AddressKind, host: str) -> bool:
    """Tell whether the operator, who wrote `host`, meant this very address."""
    written = literal(host)
    if written is not None:
        return written == address
    return host.lower() == _LOCALHOST and kind is AddressKind.LOOPBACK
