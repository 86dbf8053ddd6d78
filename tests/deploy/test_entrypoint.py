"""What the deployments start, started here: same command, environment, files and configuration."""

import datetime as dt
import ipaddress
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from deploy.composed import ROOT
from deploy.native import Container, health
from postgresql_server import running_server

from runtime.cli import command_line

pytestmark = pytest.mark.slow

PASSWORD = "made-up/pass:word@0123456789"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield a server that asks for the password of the user `flyball`, and where it is."""
    # An address of its own, since the port is that of every server: nothing else listens there.
    high, low = divmod(os.getpid() % 60_000, 250)
    address = f"127.87.{high + 1}.{low + 1}"
    with running_server(listen_addresses=address) as running:
        # Its own socket stays open to the tests; over the network it is as in the compose file.
        hba = "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"
        (running.folder / "cluster" / "pg_hba.conf").write_text(hba, encoding="utf-8")
        running.execute(f"CREATE ROLE flyball LOGIN PASSWORD '{PASSWORD}'")
        running.execute("CREATE DATABASE flyball OWNER flyball")
        running.execute("SELECT pg_reload_conf()")
        yield f"{address}:5432"


def composed_config() -> str:
    """Return the compose file's configuration, on ports and a name that are this machine's."""
    text = (ROOT / "deploy" / "container" / "flyball.toml").read_text(encoding="utf-8")
    text = text.replace('"0.0.0.0:8700"', '"0.0.0.0:0"').replace(
        "flyball-admin:8701", "127.0.0.1:0"
    )
    assert text.count(':0"') == 2
    return text


@pytest.mark.requirement("deploy.entrypoint")
def test_the_service_of_the_compose_file_serves_with_nothing_but_what_that_gives_it(
    tmp_path: Path, server: str
) -> None:
    container = Container(folder=tmp_path, config=composed_config(), store=server)
    container.secret("store_password", PASSWORD)

    migrated = container.run("migrate", "--json")
    with container.up() as urls:
        admin = urls["admin"].removesuffix("/admin/v1")
        asked = health(f"{admin}/readyz")
        by_name = httpx.get(
            f"{admin}/healthz", headers={"Host": "flyball-admin"}, trust_env=False, timeout=60
        )
        foreign = httpx.get(
            f"{admin}/healthz", headers={"Host": "evil.test"}, trust_env=False, timeout=60
        )
        token = (tmp_path / "state" / "admin.token").read_text(encoding="utf-8").strip()
        bearer = {"Authorization": f"Bearer {token}"}
        upstreams = httpx.get(
            f"{urls['admin']}/upstreams", headers=bearer, trust_env=False, timeout=60
        )
        agents = urls["agents"].replace("0.0.0.0", "127.0.0.1")
        nobody = httpx.post(
            agents, json={}, headers={"Host": "flyball"}, trust_env=False, timeout=60
        )
    gone = health(f"{admin}/readyz")

    assert migrated.returncode == 0, migrated.stdout + migrated.stderr
    assert asked.returncode == 0, asked.stderr
    assert (by_name.status_code, foreign.status_code) == (200, 421)
    assert (upstreams.status_code, nobody.status_code) == (200, 401)
    assert gone.returncode == 1
    assert "not ready" in gone.stderr
    assert not (tmp_path / "state" / "flyball.db").exists(), "the store is the server's"
    assert PASSWORD not in container.log() + migrated.stdout + migrated.stderr


@pytest.mark.requirement("deploy.entrypoint")
def test_a_wrong_password_ends_the_start_and_is_shown_nowhere(tmp_path: Path, server: str) -> None:
    container = Container(folder=tmp_path, config=composed_config(), store=server)
    container.secret("store_password", "made-up-and-wrong")

    done = container.run("migrate")

    assert done.returncode == 2
    assert "password authentication failed" in done.stderr
    assert "made-up-and-wrong" not in done.stderr + done.stdout


def test_a_secret_that_was_not_handed_over_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    container = Container(folder=tmp_path, config=composed_config(), store="127.0.0.1:1")
    for name, value in container.environment.items():
        monkeypatch.setenv(name, value)

    status = command_line.run(["up"])

    said = capsys.readouterr().err
    assert status == 2
    assert "FLYBALL_STORE_PASSWORD_FILE" in said
    assert "No such file" in said


def certified(folder: Path) -> None:
    """Write a certificate and its key, as a cluster's issuer would for the service's name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flyball")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("flyball"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )


@pytest.mark.requirement("deploy.entrypoint")
def test_a_replica_in_a_cluster_serves_by_tls_what_the_kubelet_asks(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "kubernetes" / "base" / "flyball.toml").read_text(encoding="utf-8")
    text = re.sub(r'"0\.0\.0\.0:870[01]"', '"0.0.0.0:0"', text)
    text = text.replace("/etc/flyball/tls", str(tmp_path))
    certified(tmp_path)
    container = Container(folder=tmp_path, config=text, store="")
    for name in ("FLYBALL_STORE_URL", "FLYBALL_STORE_PASSWORD_FILE"):
        del container.environment[name]
    # As the kubelet asks: without looking at the certificate, by the name that the probe gives.
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE

    with container.up() as urls:
        port = urlsplit(urls["admin"]).port
        admin = f"https://127.0.0.1:{port}"
        with httpx.Client(verify=unverified, trust_env=False, timeout=60) as kubelet:
            ready = kubelet.get(f"{admin}/readyz", headers={"Host": "flyball-admin"})
            by_address = kubelet.get(f"{admin}/readyz", headers={"Host": f"10.1.2.3:{port}"})
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False, timeout=60)
        asked = health(f"{admin}/readyz")

    assert urls["agents"].startswith("https://")
    assert (ready.status_code, by_address.status_code) == (200, 421)
    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize("url", ["file:///etc/passwd", "flyball:8701"])
def test_a_health_check_asks_nothing_but_web_addresses(url: str) -> None:
    done = health(url)

    assert done.returncode == 1
    assert "expected an http:// or https:// address" in done.stderr
