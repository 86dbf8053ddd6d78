"""Authorization servers whose tokens agents may come with, as `flyball.toml` says it."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from governor.ids import TenantId
from runtime.configuration.egress import EgressTable
from runtime.configuration.table import Flag, Name, Table
from runtime.naming import Id
from runtime.oauth.terms import ALGORITHMS, ResourceTerms, ServerTerms
from runtime.token_files import TENANT
from tool_gateway.egress.reach import is_loopback_host
from tool_gateway.upstreams.origin import origin_of

_LEEWAY_S_MAX = 300
_SCOPE_PATTERN = r"^[\x21\x23-\x5b\x5d-\x7e]{1,128}$"
_PREFIX_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,31})?$"
_CLAIM_PATTERN = r"^[\x20-\x7e]{1,200}$"

Scope = Annotated[str, Field(pattern=_SCOPE_PATTERN)]
Claim = Annotated[str, Field(pattern=_CLAIM_PATTERN)]


def checked_address(value: str) -> str:
    """Return an address of an authorization server or resource, as tokens may be sent there.

    Raises:
        ValueError: it is none, or nothing protects what is sent.
    """
    origin = origin_of(value)
    if origin is None or "#" in value:
        raise ValueError("expected an https:// address, without a user or a fragment")
    if not origin.is_tls and not is_loopback_host(origin.host):
        raise ValueError("use https://: only on this machine do tokens travel over http://")
    return value


class OAuthServerTable(EgressTable):
    """One authorization server, and who its tokens' subjects are here."""

    issuer: str
    jwks_url: str | None = None
    audience: tuple[Name, ...] = ()
    algorithms: Annotated[tuple[str, ...], Field(min_length=1)] = ALGORITHMS
    agent_claim: Claim = "sub"
    agent_prefix: Annotated[str, Field(pattern=_PREFIX_PATTERN)] = ""
    tenant: Id = TENANT
    tenant_claim: Claim | None = None
    make_agents: Flag = False

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else checked_address(value)

    @field_validator("algorithms")
    @classmethod
    def _are_public(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in ALGORITHMS:
                raise ValueError(
                    f"{name!r:.40} is not verified with a public key; use some of "
                    f"{', '.join(ALGORITHMS)}"
                )
        return value


class OAuthTable(Table):
    """This sidecar as a protected resource; without servers it is none."""

    resource: str | None = None
    scopes: tuple[Scope, ...] = ()
    # Without all of these a token's calls are read-only.
    write_scopes: tuple[Scope, ...] = ()
    leeway_s: Annotated[int, Field(strict=True, ge=0, le=_LEEWAY_S_MAX)] = 30
    server: tuple[OAuthServerTable, ...] = ()

    @field_validator("resource")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else checked_address(value)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.server and (self.resource or self.scopes or self.write_scopes):
            raise ValueError(
                "server: name an authorization server in [[oauth.server]] (issuer = …), or remove "
                "[oauth]: without one no tokens but Flyball's own are taken"
            )
        if self.server and self.resource is None:
            raise ValueError(
                "resource: is required; it is this sidecar's own address as clients know it, "
                '"https://flyball.example.org/mcp"'
            )
        issuers = [server.issuer for server in self.server]
        if len(set(issuers)) != len(issuers):
            raise ValueError("server: an issuer appears twice")
        prefixes = [server.agent_prefix for server in self.server]
        for number, prefix in enumerate(prefixes):
            if any(
                other.startswith(prefix) for other in prefixes[:number] + prefixes[number + 1 :]
            ):
                raise ValueError(
                    f"server[{number}].agent_prefix = {prefix!r}: another server's begins with it, "
                    "so that one's subject could be the other's agent; give each its own"
                )
        return self


def resource_terms_of(table: OAuthTable) -> ResourceTerms | None:
    """Return what is asked of tokens, None where only our own are taken."""
    if not table.server:
        return None
    assert table.resource is not None, "the model lets no server through without it"
    resource = table.resource
    return ResourceTerms(
        resource=resource,
        servers=tuple(_server(server, resource) for server in table.server),
        scopes=table.scopes,
        write_scopes=table.write_scopes,
        leeway_s=table.leeway_s,
    )


def _server(table: OAuthServerTable, resource: str) -> ServerTerms:
    return ServerTerms(
        issuer=table.issuer,
        audiences=frozenset(table.audience or (resource,)),
        jwks_url=table.jwks_url,
        algorithms=frozenset(table.algorithms),
        agent_claim=table.agent_claim,
        agent_prefix=table.agent_prefix,
        tenant=TenantId(table.tenant),
        tenant_claim=table.tenant_claim,
        makes_agents=table.make_agents,
        reach=table.reach(),
        learned=table.reach(is_named=False),
    )
