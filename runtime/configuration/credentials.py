"""What an upstream is sent so that it knows who asks, as `flyball.toml` says it."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from runtime.clock import SystemClock
from runtime.configuration.egress import EgressTable
from runtime.configuration.oauth import Scope, checked_address
from runtime.configuration.table import Flag
from runtime.errors import ConfigError
from runtime.oauth.assertion import UnusableKeyError, assertion_of
from runtime.secret_files import UnreadableSecretError, secret_in
from runtime.settings import secret_from_environment, unset
from runtime.withheld import withhold
from tool_gateway.upstreams.oauth.terms import (
    ClientCredentials,
    ClientMethod,
    Forward,
    OAuthClient,
    TokenExchange,
    UpstreamAuth,
    WorkloadIdentity,
)

ClientText = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[\x20-\x7e]+$")]
_OF_A_CLIENT = (
    *("client_id", "client_secret_from", "client_secret_file", "private_key_from"),
    *("private_key_file", "issuer", "token_url", "resource", "audience", "method", "key_id"),
    "assertion_file",
)


class UpstreamAuthTable(EgressTable):
    """How the sidecar, or its caller, is known to one upstream.

    `allow_private` and `allow_networks` are for where servers say that tokens come from.
    """

    kind: Literal["client_credentials", "workload_identity", "token_exchange", "forward"]
    client_id: ClientText | None = None
    client_secret_from: ClientText | None = None
    client_secret_file: ClientText | None = None
    private_key_from: ClientText | None = None
    private_key_file: ClientText | None = None
    key_id: ClientText | None = None
    assertion_file: ClientText | None = None
    method: Literal["client_secret_basic", "client_secret_post"] | None = None
    issuer: str | None = None
    token_url: str | None = None
    discover: Flag = False
    scopes: tuple[Scope, ...] = ()
    resource: ClientText | None = None
    audience: ClientText | None = None

    @field_validator("issuer", "token_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else checked_address(value)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kind == "forward":
            given = [name for name in _OF_A_CLIENT if getattr(self, name) is not None]
            if given or self.discover or self.scopes:
                raise ValueError('kind = "forward" sends the caller\'s own token and takes no more')
            return self
        self._check_proof()
        if self.issuer is None and self.token_url is None and not self.discover:
            raise ValueError(
                "issuer: name the authorization server (or its token_url); with discover = true "
                "the upstream says who is sent this client's secret"
            )
        if self.discover and (self.issuer is not None or self.token_url is not None):
            raise ValueError("discover: it is issuer or token_url that says where tokens come from")
        return self

    def _check_proof(self) -> None:
        given = sum(one is not None for one in self._proofs)
        if self.kind == "workload_identity":
            if self.assertion_file is None or given:
                raise ValueError(
                    'kind = "workload_identity" takes assertion_file, the file in which the '
                    "platform says who this is, and neither a secret nor a key"
                )
            return
        if self.assertion_file is not None:
            raise ValueError('assertion_file: is for kind = "workload_identity"; remove it')
        if self.client_id is None:
            raise ValueError("client_id: is required; the authorization server gave it to you")
        if given != 1:
            raise ValueError(
                "give exactly one of client_secret_from, client_secret_file, private_key_from and "
                "private_key_file"
            )

    @property
    def _proofs(self) -> tuple[str | None, ...]:
        return (
            self.client_secret_from,
            self.client_secret_file,
            self.private_key_from,
            self.private_key_file,
        )


def auth_of(table: UpstreamAuthTable | None, *, where: str) -> UpstreamAuth | None:
    """Return the credentials of an upstream, with the secrets that the table points at.

    Raises:
        ConfigError: a secret is not there, or is none.
    """
    if table is None:
        return None
    if table.kind == "forward":
        return Forward()
    secret = _secret(table.client_secret_from, table.client_secret_file, f"{where}.client_secret")
    key = _secret(table.private_key_from, table.private_key_file, f"{where}.private_key")
    for given in (secret, key):
        if given is not None:
            withhold(given)
    client = OAuthClient(
        client_id=table.client_id,
        secret=secret,
        assertion=None if key is None else _assertion(table, key, where=f"{where}.private_key"),
        key_digest=None if key is None else _digest(key, table.key_id),
        method=None if table.method is None else ClientMethod(table.method),
        issuer=table.issuer,
        token_url=table.token_url,
        scopes=table.scopes,
        resource=table.resource,
        audience=table.audience,
        reach=table.reach(),
        learned=table.reach(is_named=False),
    )
    match table.kind:
        case "client_credentials":
            return ClientCredentials(client=client)
        case "token_exchange":
            return TokenExchange(client=client)
        case _:
            assert table.assertion_file is not None, "the model lets none through without it"
            return WorkloadIdentity(client=client, assertion_file=Path(table.assertion_file))


def _assertion(table: UpstreamAuthTable, key: str, *, where: str) -> Callable[[str], str]:
    assert table.client_id is not None, "the model lets no client through without it"
    try:
        return assertion_of(table.client_id, key, key_id=table.key_id, clock=SystemClock())
    except UnusableKeyError as error:
        raise ConfigError(f"{where}: {error}") from error


def _digest(key: str, key_id: str | None) -> str:
    """Return what tells a rotated key from the one before it."""
    return sha256(f"{key_id or ''}\n{key}".encode()).hexdigest()


def _secret(variable: str | None, file: str | None, where: str) -> str | None:
    """Return the secret in a variable of the environment or in a file, None if neither is named."""
    if variable is not None:
        value = secret_from_environment(variable)
        if not value:
            raise ConfigError(f"{where}_from: {unset(variable)}")
        return value
    if file is None:
        return None
    try:
        return secret_in(Path(file))
    except UnreadableSecretError as error:
        raise ConfigError(f"{where}_file = {file!r}: {error}") from error
