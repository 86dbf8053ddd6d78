"""What `[upstream.auth]` says, and what it may not say."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from runtime.configuration.load import parse_config
from runtime.configuration.upstreams import upstreams_of
from runtime.errors import ConfigError
from tool_gateway.upstreams.oauth.terms import (
    ClientCredentials,
    Forward,
    TokenExchange,
    WorkloadIdentity,
)
from tool_gateway.upstreams.spec import HttpSpec

UPSTREAM = '[[upstream]]\nname = "a"\nurl = "https://a.example.org/mcp"\n'
CLIENT = 'client_id = "flyball"\nclient_secret_from = "A_SECRET"\n'
ISSUER = 'issuer = "https://login.example.org"\n'
OAUTH = (
    '[oauth]\nresource = "https://flyball.example.org/mcp"\n'
    '[[oauth.server]]\nissuer = "https://login.example.org"\n'
)


def spec_of(text: str, *, first: str = "") -> HttpSpec:
    config = parse_config(f"{first}{UPSTREAM}[upstream.auth]\n{text}", source="flyball.toml")
    (spec,) = upstreams_of(config)
    assert isinstance(spec, HttpSpec)
    return spec


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret")


@pytest.mark.requirement("oauth.secrets-stay-here")
def test_a_clients_secret_comes_from_the_environment_and_is_in_no_repr() -> None:
    spec = spec_of(f'kind = "client_credentials"\n{CLIENT}{ISSUER}scopes = ["x"]\n')

    assert isinstance(spec.auth, ClientCredentials)
    assert (spec.auth.client.secret, spec.auth.client.scopes) == ("s3cret", ("x",))
    assert not spec.auth.client.learned.is_named
    assert "s3cret" not in repr(spec)


def test_a_clients_secret_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-a-file\n")
    named = f'client_secret_file = "{tmp_path}/secret"\n'

    spec = spec_of(f'kind = "client_credentials"\nclient_id = "flyball"\n{named}{ISSUER}')

    assert isinstance(spec.auth, ClientCredentials)
    assert spec.auth.client.secret == "from-a-file"


def test_tokens_of_callers_are_exchanged_or_forwarded() -> None:
    exchanged = spec_of(f'kind = "token_exchange"\n{CLIENT}{ISSUER}', first=OAUTH)

    assert isinstance(exchanged.auth, TokenExchange)
    assert isinstance(spec_of('kind = "forward"\n', first=OAUTH).auth, Forward)


@pytest.mark.requirement("oauth.keys-rotate")
def test_a_key_of_ours_that_was_rotated_makes_another_upstream_of_it(tmp_path: Path) -> None:
    where = tmp_path / "key"
    named = f'kind = "client_credentials"\nclient_id = "x"\nprivate_key_file = "{where}"\n{ISSUER}'
    where.write_text(a_key())
    first, again = spec_of(named), spec_of(named)

    where.write_text(a_key())
    rotated, renamed = spec_of(named), spec_of(f'{named}key_id = "second"\n')

    assert first == again
    assert len({first.auth, rotated.auth, renamed.auth}) == 3
    assert "key_digest" not in repr(rotated)


def a_key() -> str:
    """Return a new private key as a client has it."""
    made = Ed25519PrivateKey.generate()
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_what_the_platform_says_of_a_workload_is_in_a_file() -> None:
    named = 'assertion_file = "/run/token"\n'

    spec = spec_of(f'kind = "workload_identity"\n{named}{ISSUER}')

    assert isinstance(spec.auth, WorkloadIdentity)
    assert str(spec.auth.assertion_file) == "/run/token"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'kind = "client_credentials"\n{CLIENT}', "name the authorization server"),
        (f'kind = "client_credentials"\n{CLIENT}{ISSUER}discover = true\n', "discover: it is"),
        (f'kind = "client_credentials"\n{ISSUER}', "client_id: is required"),
        (f'kind = "client_credentials"\nclient_id = "x"\n{ISSUER}', "give exactly one of"),
        (f'kind = "token_exchange"\n{CLIENT}{ISSUER}', "no caller has a token of its own"),
        ('kind = "forward"\n', "no caller has a token of its own"),
        (f'kind = "forward"\n{ISSUER}', "takes no more"),
        ('kind = "password"\n', "kind"),
        (f'kind = "workload_identity"\n{ISSUER}', "takes assertion_file"),
        (f'kind = "workload_identity"\n{CLIENT}{ISSUER}assertion_file = "x"\n', "neither a"),
        (f'kind = "client_credentials"\n{CLIENT}{ISSUER}assertion_file = "x"\n', "is for kind"),
        (f'kind = "client_credentials"\n{CLIENT}issuer = "http://a.org"\n', "use https://"),
        (f'kind = "client_credentials"\n{CLIENT}{ISSUER}method = "none"\n', "method"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        spec_of(text)


@pytest.mark.requirement("oauth.secrets-stay-here")
@pytest.mark.parametrize("content", ["", "no key", "-----BEGIN PRIVATE KEY-----\ns3cret\n"])
def test_a_key_that_is_none_is_refused_without_being_quoted(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    named = f'private_key_file = "{tmp_path}/key"\n'

    with pytest.raises(ConfigError, match=r"upstream a\.auth\.private_key") as refused:
        spec_of(f'kind = "client_credentials"\nclient_id = "flyball"\n{named}{ISSUER}')

    assert "s3cret" not in str(refused.value)


def test_a_secret_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_SECRET")

    with pytest.raises(ConfigError, match="variable A_SECRET is not set"):
        spec_of(f'kind = "client_credentials"\n{CLIENT}{ISSUER}')


def test_a_header_and_a_token_are_one_too_many() -> None:
    both = UPSTREAM + 'headers = { authorization = "x" }\n'
    with pytest.raises(ConfigError, match="there is an Authorization header as well"):
        parse_config(
            f'{both}[upstream.auth]\nkind = "client_credentials"\n{CLIENT}{ISSUER}', source="f"
        )


def test_a_server_that_is_started_is_sent_no_token() -> None:
    started = '[[upstream]]\nname = "a"\ncommand = ["a"]\n[upstream.auth]\nkind = "forward"\n'
    with pytest.raises(ConfigError, match="auth are for a `url`"):
        parse_config(started, source="f")
