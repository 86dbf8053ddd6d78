"""What an address may be listened on for, and what an accepted connection is like."""

import asyncio
import socket

import anyio
import pytest

from runtime.configuration.model import Listen
from runtime.errors import ListenError
from runtime.listeners import Bound, bind, is_loopback

LOCAL = Listen()
TLS = Listen(tls_cert="/etc/flyball/cert.pem", tls_key="/etc/flyball/key.pem")
BEHIND_A_PROXY = Listen(trusted_proxy=True)


def port_of(bound: Bound) -> int:
    return int(bound.listening.getsockname()[1])


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_port_zero_takes_a_free_port_and_the_url_names_it() -> None:
    bound = bind("127.0.0.1:0", LOCAL)

    with bound.listening:
        assert port_of(bound) > 0
        assert bound.url == f"http://127.0.0.1:{port_of(bound)}"


def test_two_listeners_never_get_one_free_port() -> None:
    one, other = bind("127.0.0.1:0", LOCAL), bind("127.0.0.1:0", LOCAL)

    with one.listening, other.listening:
        assert one.url != other.url


def test_an_address_in_use_is_refused_by_name_with_the_fix() -> None:
    bound = bind("127.0.0.1:0", LOCAL)
    address = f"127.0.0.1:{port_of(bound)}"

    with bound.listening, pytest.raises(ListenError) as caught:
        bind(address, LOCAL)

    assert str(caught.value) == (
        f"listen: {address}: Address already in use; stop what uses it, or choose another port"
    )


def test_a_port_is_free_again_as_soon_as_its_listener_is_closed() -> None:
    bound = bind("127.0.0.1:0", LOCAL)
    port = port_of(bound)
    bound.listening.close()

    again = bind(f"127.0.0.1:{port}", LOCAL)

    with again.listening:
        assert port_of(again) == port


def test_a_host_that_is_none_of_ours_is_refused() -> None:
    # 192.0.2.0/24 is for documentation: no interface has an address of it.
    with pytest.raises(ListenError, match=r"^listen: 192\.0\.2\.1:8700: "):
        bind("192.0.2.1:8700", BEHIND_A_PROXY)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "flyball.test:0"])
def test_an_address_that_others_reach_is_refused_without_protection(address: str) -> None:
    with pytest.raises(ListenError) as caught:
        bind(address, LOCAL)

    said = str(caught.value)
    assert said.startswith(f"listen: {address} can be reached from other machines")
    assert "tls_cert" in said
    assert "trusted_proxy = true" in said


@pytest.mark.parametrize(("listen", "scheme"), [(BEHIND_A_PROXY, "http"), (TLS, "https")])
def test_an_address_that_others_reach_is_taken_with_protection(listen: Listen, scheme: str) -> None:
    bound = bind("0.0.0.0:0", listen)

    with bound.listening:
        assert bound.url == f"{scheme}://0.0.0.0:{port_of(bound)}"


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_an_ipv6_address_is_bound_and_shown_in_brackets() -> None:
    bound = bind("[::1]:0", LOCAL)

    with bound.listening:
        assert bound.listening.family is socket.AF_INET6
        assert bound.url == f"http://[::1]:{port_of(bound)}"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.anyio
async def test_an_accepted_connection_does_not_hold_small_answers_back() -> None:
    bound = bind("127.0.0.1:0", LOCAL)
    nagle_is_off: list[bool] = []
    connected = anyio.Event()

    def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        nagle_is_off.append(bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        writer.close()
        connected.set()

    # As uvicorn does: the loop's own server on the socket that `bind` opened.
    async with await asyncio.start_server(take, sock=bound.listening):
        with anyio.fail_after(5):
            async with await anyio.connect_tcp("127.0.0.1", port_of(bound)):
                await connected.wait()

    assert nagle_is_off == [True]
