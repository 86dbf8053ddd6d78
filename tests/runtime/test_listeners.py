"""What an address may be listened on for, and what an accepted connection is like."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from anyio.abc import TaskStatus
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from ports import a_port
from starlette.types import Receive, Scope, Send

from governor.ids import CallId, SessionId
from runtime.configuration.listen import Listen
from runtime.errors import ListenError
from runtime.listeners import Bound, Listeners, bind, check_free, is_loopback
from tool_gateway.running import RunningCalls

LOCAL = Listen()
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
    port = a_port()
    bind(f"127.0.0.1:{port}", LOCAL).listening.close()

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


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate of its own and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "flyball.test")])
    began = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(1)
        .not_valid_before(began)
        .not_valid_after(began + timedelta(days=36_500))
        .sign(key, SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_an_address_that_others_reach_is_taken_behind_a_proxy() -> None:
    bound = bind("0.0.0.0:0", BEHIND_A_PROXY)

    with bound.listening:
        assert bound.url == f"http://0.0.0.0:{port_of(bound)}"


def test_an_address_that_others_reach_is_taken_with_tls(certificate: tuple[str, str]) -> None:
    bound = bind("0.0.0.0:0", Listen(tls_cert=certificate[0], tls_key=certificate[1]))

    with bound.listening:
        assert bound.url == f"https://0.0.0.0:{port_of(bound)}"


def test_tls_files_that_are_not_there_are_refused_by_name(certificate: tuple[str, str]) -> None:
    with pytest.raises(ListenError, match=r"^listen\.tls_key = '/no/key\.pem': cannot be read"):
        bind("127.0.0.1:0", Listen(tls_cert=certificate[0], tls_key="/no/key.pem"))


def test_tls_files_that_do_not_belong_together_are_refused(certificate: tuple[str, str]) -> None:
    with pytest.raises(ListenError, match="no certificate with its unencrypted key"):
        bind("127.0.0.1:0", Listen(tls_cert=certificate[1], tls_key=certificate[0]))


def test_checking_both_addresses_leaves_them_free_and_refuses_one_that_is_taken() -> None:
    with bind("127.0.0.1:0", LOCAL).listening as taken:
        admin = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=admin):
            check_free(Listen(agents="127.0.0.1:0", admin=admin))

    check_free(Listen(agents="127.0.0.1:0", admin=admin))
    check_free(Listen(agents="127.0.0.1:0", admin=admin))


async def nothing_here(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError


def listeners() -> Listeners:
    one, other = bind("127.0.0.1:0", LOCAL), bind("127.0.0.1:0", LOCAL)
    return Listeners(agents=(one, nothing_here), admin=(other, nothing_here), listen=LOCAL)


@pytest.mark.anyio
async def test_a_call_that_runs_is_cut_and_not_waited_for_once_somebody_hurries() -> None:
    served, running = listeners(), RunningCalls()
    settled = anyio.Event()

    async def call(*, task_status: TaskStatus[None]) -> None:
        with running.track(CallId("call_1"), SessionId("ses_1")) as this:
            with this.stoppable():
                task_status.started()
                await anyio.sleep_forever()
            settled.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(call)
            tasks.start_soon(served.serve, running)
            served.stop()
            served.hurry()

    assert settled.is_set()


@pytest.mark.anyio
async def test_a_cancelled_owner_ends_its_servers_without_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = listeners()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.serve, RunningCalls())
            while not all(server.started for server, _ in served._servers):
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


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
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port_of(bound)):
                await connected.wait()

    assert nagle_is_off == [True]
