"""Places and refusals in the form that the programs in the kernel read and write."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import anyio
import pytest

from ebpf.confining.names import FRESH_SECONDS, NameBook
from ebpf.confining.places import (
    Address,
    Kind,
    Refusal,
    networks_of,
    place_key,
    refusal_of,
    resolvers_in,
)
from governor.confines import destination_of

OLD_KIND = IPv6Address("::ffff:192.0.2.1").packed
METADATA = ip_address("169.254.169.254")
PUBLIC = ip_address("93.184.216.34")


def test_a_network_of_the_old_kind_is_written_as_the_new_one_has_it() -> None:
    key = place_key(7, ip_network("10.0.0.0/8"), 443)

    assert key[:4] == (80 + 96 + 8).to_bytes(4, "little")
    assert key[4:12] == (7).to_bytes(8, "little")
    assert key[12:14] == b"\x01\xbb"
    assert key[14:] == bytes(10) + b"\xff\xff\x0a\0\0\0"


def test_a_name_opens_the_public_addresses_that_it_has_and_no_others() -> None:
    inside = {METADATA, ip_address("10.0.0.5"), ip_address("127.0.0.1"), ip_address("::1")}

    found = list(networks_of(destination_of("example.org:443"), {PUBLIC, *inside}))

    assert found == [ip_network("93.184.216.34")]


def test_only_its_own_name_leads_to_this_machine() -> None:
    here: frozenset[Address] = frozenset({ip_address("127.0.0.1"), ip_address("10.0.0.5")})

    assert list(networks_of(destination_of("localhost:80"), here)) == [ip_network("127.0.0.1")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch x\n", ["192.0.2.1", "2001:db8::1"]),
        ("", ["127.0.0.1"]),
        ("nameserver\nnameserver fe80::1%eth0x y\n;nameserver 192.0.2.1\n", ["fe80::1%eth0x"]),
        ("nameserver no\n" + "nameserver 192.0.2.1\n" * 5, ["192.0.2.1"] * 3),
    ],
)
def test_the_resolvers_are_those_that_the_library_asks(text: str, expected: list[str]) -> None:
    assert [str(found) for found in resolvers_in(text)] == expected


@pytest.mark.parametrize(
    ("kind", "address", "port", "said"),
    [
        (
            Kind.CONNECT,
            OLD_KIND,
            b"\x01\xbb",
            "to connect to 192.0.2.1:443",
        ),
        (Kind.PACKET, IPv6Address("2001:db8::1").packed, b"\0\x35", "to send to [2001:db8::1]:53"),
        (Kind.LISTEN, bytes(16), b"\x1f\x90", "to listen on [::]:8080"),
        (Kind.SOCKET, bytes(16), b"\x01\0", "to make a socket of the ICMP protocol"),
        (Kind.DEVICE, b"\x07\0\0\0\x02\0\0\0" + bytes(8), b"b\0", "to open the device b 7:2"),
    ],
)
def test_a_refusal_says_who_tried_what(kind: Kind, address: bytes, port: bytes, said: str) -> None:
    key = (9).to_bytes(8, "little") + address + port + bytes([kind]) + bytes(5)
    value = (3).to_bytes(8, "little") + b"curl".ljust(16, b"\0")

    found = refusal_of(key, value)

    assert (found.domain, found.count) == (9, 3)
    assert str(found) == f"curl tried {said} (3 times)"


def test_a_refusal_without_a_program_is_somebodys() -> None:
    found = Refusal(domain=1, kind=Kind.SEND, place="192.0.2.1:53", program="", count=1)

    assert str(found) == "a process tried to send to 192.0.2.1:53"


@pytest.mark.anyio
async def test_a_name_that_nobody_answers_for_has_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ebpf.confining.names.RESOLVE_SECONDS_MAX", 0.01)

    async def never(_: str) -> frozenset[Address]:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(60):
        found = await NameBook(never).addresses("slow.example")

    assert found == frozenset()


@pytest.mark.anyio
@pytest.mark.requirement("network.names-are-followed")
async def test_a_name_is_asked_for_anew_when_its_answer_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("ebpf.confining.names.anyio.current_time", lambda: now)
    answers = [frozenset({IPv4Address("192.0.2.1")}), frozenset({IPv4Address("192.0.2.2")})]

    async def resolve(_: str) -> frozenset[Address]:
        return frozenset(answers.pop(0))

    book = NameBook(resolve)

    first, again = await book.addresses("a.example"), await book.addresses("a.example")
    now += FRESH_SECONDS
    later = await book.addresses("a.example")

    assert first == again == {IPv4Address("192.0.2.1")}
    assert later == {IPv4Address("192.0.2.2")}
