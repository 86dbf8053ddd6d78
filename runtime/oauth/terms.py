"""What an operator says about the authorization servers whose tokens are accepted."""

from dataclasses import dataclass

from governor.ids import TenantId
from tool_gateway.egress.reach import LEARNED, NAMED, Reach

# What verifies with a public key. With `none` or a shared secret in the list, whoever knows the
# public key could sign.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
TYPES = ("at+jwt", "jwt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTerms:
    """One authorization server, and whose token of it is whose here."""

    issuer: str
    audiences: frozenset[str]
    jwks_url: str | None = None
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    types: frozenset[str] = frozenset(TYPES)
    agent_claim: str = "sub"
    agent_prefix: str = ""
    tenant: TenantId
    tenant_claim: str | None = None
    makes_agents: bool = False
    reach: Reach = NAMED
    learned: Reach = LEARNED


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTerms:
    """This sidecar as a protected resource; `scopes` are what every token must have.

    One without all of `write_scopes` is good for what changes nothing.
    """

    resource: str
    servers: tuple[ServerTerms, ...]
    scopes: tuple[str, ...] = ()
    write_scopes: tuple[str, ...] = ()
    leeway_s: int = 30
