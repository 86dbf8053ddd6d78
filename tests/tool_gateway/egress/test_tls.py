"""Connections to a checked address are still ones to the host: its name is what TLS proves."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tool_gateway.egress.reach import Reach, network_of
from tool_gateway.egress.ways import Ways
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.guarded import GuardedTransport

pytestmark = pytest.mark.anyio
Way = Callable[[int], Awaitable[int]]
HERE = Reach(networks=(network_of("127.0.0.1"),))
NAME = "up.example.org"


async def here(*_: object) -> Sequence[str]:
    return ["127.0.0.1"]


def certificate_for(name: str, folder: Path) -> tuple[Path, Path]:
    """Write a certificate for `name` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private


@asynccontextmanager
async def server(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[int, list[str | None]]]:
    """Serve one answer over TLS, as `name`, which clients here trust; yield what they ask for."""
    certificate, private = certificate_for(name, folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    asked: list[str | None] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, private)
    context.sni_callback = lambda _, host, __: asked.append(host)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    with anyio.fail_after(60):
        try:
            yield listening.sockets[0].getsockname()[1], asked
        finally:
            listening.close()


async def short(port: int) -> int:
    fetcher = Fetcher(resolve=here)
    return (await fetcher.fetched(f"https://{NAME}:{port}/", reach=HERE)).status


async def of_the_library(port: int) -> int:
    guarded = GuardedTransport(httpx2.AsyncHTTPTransport(), Ways(HERE, resolve=here))
    async with httpx2.AsyncClient(transport=guarded, timeout=60) as client:
        return (await client.get(f"https://{NAME}:{port}/")).status_code


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize("way", [short, of_the_library])
async def test_the_server_proves_the_name_that_was_asked_for(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server(NAME, tmp_path, monkeypatch) as (port, asked):
        assert await way(port) == 200

    assert asked == [NAME]


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize("way", [short, of_the_library])
async def test_a_server_of_another_name_is_not_spoken_to(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server("other.example.org", tmp_path, monkeypatch) as (port, _):
        with pytest.raises((UpstreamNotReachedError, httpx2.ConnectError), match="certificate"):
            await way(port)


@pytest.mark.requirement("egress.checked-addresses")
async def test_a_name_beyond_ascii_is_proved_as_it_was_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []

    class Noting(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            # What TLS makes of another spelling depends on who encodes it.
            named.append(request.extensions["sni_hostname"])
            return await super().handle_async_request(request)

    async def resolving(host: str, _: int) -> Sequence[str]:
        named.append(host)
        return ["127.0.0.1"]

    async with server("xn--strae-oqa.example.org", tmp_path, monkeypatch) as (port, asked):
        guarded = GuardedTransport(Noting(), Ways(HERE, resolve=resolving))
        async with httpx2.AsyncClient(transport=guarded, timeout=60) as client:
            answer = await client.get(f"https://straße.example.org:{port}/")

    assert answer.status_code == 200
    assert set(named) == set(asked) == {"xn--strae-oqa.example.org"}
