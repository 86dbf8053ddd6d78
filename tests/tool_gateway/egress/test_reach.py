"""Which addresses may be connected to: each kind, each way to write or to hide one."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_gateway.egress.reach import (
    LEARNED,
    NAMED,
    AddressKind,
    Reach,
    kind_of,
    literal,
    network_of,
    refusal_of,
)

PRIVATE = Reach(is_private=True)
DENIED = {
    "127.0.0.1": AddressKind.LOOPBACK,
    "127.255.0.9": AddressKind.LOOPBACK,
    "::1": AddressKind.LOOPBACK,
    "10.0.0.1": AddressKind.PRIVATE,
    "172.31.255.255": AddressKind.PRIVATE,
    "192.168.1.1": AddressKind.PRIVATE,
    "fd12::1": AddressKind.PRIVATE,
    "fec0::1": AddressKind.PRIVATE,
    "100.64.0.1": AddressKind.SHARED,
    "169.254.1.1": AddressKind.LINK_LOCAL,
    "fe80::1": AddressKind.LINK_LOCAL,
    "fe80::1%eth0": AddressKind.LINK_LOCAL,
    "169.254.169.254": AddressKind.METADATA,
    "100.100.100.200": AddressKind.METADATA,
    "fd00:ec2::254": AddressKind.METADATA,
    "0.0.0.0": AddressKind.SPECIAL,
    "0.1.2.3": AddressKind.SPECIAL,
    "::": AddressKind.SPECIAL,
    "224.0.0.1": AddressKind.SPECIAL,
    "255.255.255.255": AddressKind.SPECIAL,
    "240.0.0.1": AddressKind.SPECIAL,
    "192.0.2.1": AddressKind.SPECIAL,
    "198.18.0.1": AddressKind.SPECIAL,
    "ff02::1": AddressKind.SPECIAL,
    "2001:db8::1": AddressKind.SPECIAL,
    "::127.0.0.1": AddressKind.SPECIAL,
    "64:ff9b:1::a00:1": AddressKind.SPECIAL,
    "::ffff:127.0.0.1": AddressKind.LOOPBACK,
    "::ffff:10.0.0.1": AddressKind.PRIVATE,
    "::ffff:169.254.169.254": AddressKind.METADATA,
    "64:ff9b::127.0.0.1": AddressKind.LOOPBACK,
    "64:ff9b::a9fe:a9fe": AddressKind.METADATA,
    "2002:7f00:1::1": AddressKind.TUNNEL,
    "2002:808:808::1": AddressKind.TUNNEL,
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": AddressKind.TUNNEL,
}


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize(("address", "kind"), DENIED.items())
def test_nothing_but_public_addresses_is_reached_by_a_name(address: str, kind: AddressKind) -> None:
    found = ip_address(address)

    assert kind_of(found) is kind
    assert refusal_of(found, host="files.example.org", reach=NAMED) is kind
    assert refusal_of(found, host="files.example.org", reach=LEARNED) is kind


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "100.63.0.1"]
)
def test_public_addresses_are_reached_however_they_are_written(address: str) -> None:
    assert refusal_of(ip_address(address), host="files.example.org", reach=LEARNED) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "fd12::1", "fe80::1%eth0"])
def test_an_address_that_the_operator_wrote_himself_is_what_he_meant(address: str) -> None:
    found = ip_address(address)

    assert refusal_of(found, host=address, reach=NAMED) is None
    assert refusal_of(found, host=address, reach=LEARNED) is not None


def test_localhost_of_the_operator_is_loopback_and_nothing_else() -> None:
    assert refusal_of(ip_address("127.0.0.1"), host="localhost", reach=NAMED) is None
    assert refusal_of(ip_address("::1"), host="LocalHost", reach=NAMED) is None
    assert refusal_of(ip_address("10.0.0.1"), host="localhost", reach=NAMED) is AddressKind.PRIVATE
    assert refusal_of(ip_address("::1"), host="localhost", reach=LEARNED) is AddressKind.LOOPBACK
    assert refusal_of(ip_address("::1"), host="localhost.example.org", reach=NAMED) is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "100.64.0.1", "fd12::1", "::1"])
def test_allow_private_opens_private_networks_to_names(address: str) -> None:
    assert refusal_of(ip_address(address), host="db.internal", reach=PRIVATE) is None


@pytest.mark.parametrize("address", ["169.254.1.1", "0.0.0.0", "224.0.0.1", "2002:7f00:1::1"])
def test_allow_private_opens_nothing_else(address: str) -> None:
    assert refusal_of(ip_address(address), host="db.internal", reach=PRIVATE) is not None


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize(
    "address", ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"]
)
def test_metadata_services_are_reached_only_where_they_are_listed(address: str) -> None:
    found = ip_address(address)
    listed = Reach(networks=(network_of("169.254.169.254"), network_of("fd00:ec2::254/128")))

    assert refusal_of(found, host=address, reach=NAMED) is AddressKind.METADATA
    assert refusal_of(found, host="db.internal", reach=PRIVATE) is AddressKind.METADATA
    assert refusal_of(found, host="db.internal", reach=listed) is None


def test_a_listed_network_opens_what_is_in_it_and_no_more() -> None:
    listed = Reach(is_named=False, networks=(network_of("10.1.0.0/16"),))

    assert refusal_of(ip_address("10.1.2.3"), host="a.internal", reach=listed) is None
    assert refusal_of(ip_address("::ffff:10.1.2.3"), host="a.internal", reach=listed) is None
    assert refusal_of(ip_address("10.2.0.1"), host="a.internal", reach=listed) is not None


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1"])
def test_what_only_resolvers_take_for_an_address_is_a_name(host: str) -> None:
    assert literal(host) is None
    assert refusal_of(ip_address("127.0.0.1"), host=host, reach=NAMED) is AddressKind.LOOPBACK


def test_only_an_address_of_version_six_has_a_zone() -> None:
    assert literal("fe80::1%eth0") == ip_address("fe80::1")
    assert literal("1.2.3.4%eth0") is None


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_judged_as_it_is_by_itself(address: IPv4Address) -> None:
    mapped = IPv6Address(f"::ffff:{address}")
    translated = IPv6Address(int(IPv6Address("64:ff9b::")) + int(address))

    assert kind_of(mapped) is kind_of(address) is kind_of(translated)


@given(st.ip_addresses())
def test_what_the_library_calls_private_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if kind_of(address) is AddressKind.PUBLIC:
        assert not address.is_loopback
        assert not address.is_link_local
        assert not address.is_multicast
        assert not address.is_unspecified
