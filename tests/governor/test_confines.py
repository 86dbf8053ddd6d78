"""What a rule withholds: destinations as they are written, paths that can be held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.confines import Confines, Destination, destination_of
from governor.errors import InvalidPolicyError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("example.org:443", "example.org:443"),
        ("Example.ORG.:443", "example.org:443"),
        ("_srv.example.org:1", "_srv.example.org:1"),
        ("localhost:*", "localhost:*"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("192.0.2.7:65535", "192.0.2.7/32:65535"),
        ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
        ("[::1]:*", "[::1/128]:*"),
    ],
)
def test_a_destination_is_read_as_it_is_meant(text: str, shown: str) -> None:
    assert str(destination_of(text)) == shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("example.org", "no host:port"),
        (":443", "no host:port"),
        ("2001:db8::1:443", "no host:port"),
        ("https://example.org:443", "no host:port"),
        ("example.org:0", "the port"),
        ("example.org:65536", "the port"),
        ("example.org:https", "the port"),
        ("example.org:٤٤٣", "the port"),
        ("example.org:+1", "the port"),
        ("example.org:", "the port"),
        ("10.0.0.1/8:443", "no bit may be set"),
        ("10.0.0.0/33:443", "no bit may be set"),
        ("10.0.0.256:443", "neither a DNS name nor a network"),
        ("*.example.org:443", "neither a DNS name nor a network"),
        ("exa mple.org:443", "neither a DNS name nor a network"),
        ("-a.example:443", "neither a DNS name nor a network"),
        (f"{'a' * 64}.example:443", "neither a DNS name nor a network"),
        ("a..b:443", "neither a DNS name nor a network"),
        ("bücher.example:443", "neither a DNS name nor a network"),
        ("[example.org]:443", "neither a DNS name nor a network"),
    ],
)
def test_what_names_no_destination_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(InvalidPolicyError, match=told):
        destination_of(text)


@given(st.text(max_size=40))
def test_any_text_is_a_destination_or_refused(text: str) -> None:
    try:
        found = destination_of(text)
    except InvalidPolicyError:
        return
    assert (found.name is None) != (found.network is None)


@given(st.ip_addresses(), st.integers(1, 65_535))
def test_every_address_can_be_named(address: object, port: int) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)

    found = destination_of(f"{host}:{port}")

    assert found.network is not None
    assert (found.network.network_address, found.port) == (address, port)


@pytest.mark.parametrize(
    "path", ["", "srv", "/", "/srv/", "/srv/../etc", "/srv//x", "/./x", "/a\0b"]
)
def test_a_path_that_cannot_be_withheld_is_refused(path: str) -> None:
    with pytest.raises(InvalidPolicyError, match="files:"):
        Confines(hidden=(path,))


def test_too_much_of_something_is_refused() -> None:
    with pytest.raises(InvalidPolicyError, match="at most 64 paths"):
        Confines(hidden=tuple(f"/{number}" for number in range(65)))
    with pytest.raises(InvalidPolicyError, match="at most 64 destinations"):
        Confines(network=(Destination(name="a", port=1),) * 65)
    with pytest.raises(InvalidPolicyError, match="at most 200 bytes"):
        Confines(read_only=("/" + "x" * 200,))
