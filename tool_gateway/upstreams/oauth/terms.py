"""What an operator says about the credentials of one upstream; they go there and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tool_gateway.egress.reach import LEARNED, NAMED, Reach


class ClientMethod(StrEnum):
    """How the sidecar proves to a token endpoint who it is."""

    BASIC = "client_secret_basic"
    POST = "client_secret_post"
    KEY = "private_key_jwt"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """The sidecar as a client of an authorization server, for one upstream.

    Without `issuer` and `token_url` the upstream says which server that is. `assertion` signs for
    an audience, with the key of `key_digest`: two functions cannot be told apart, two keys can.
    `reach` is for what is named here, `learned` for what servers say.
    """

    client_id: str | None
    secret: str | None = field(default=None, repr=False)
    assertion: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    key_digest: str | None = field(default=None, repr=False)
    method: ClientMethod | None = None
    issuer: str | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    audience: str | None = None
    reach: Reach = NAMED
    learned: Reach = LEARNED


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """One token of the sidecar's own serves every caller (RFC 6749, 4.4)."""

    client: OAuthClient


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchange:
    """Each caller's token is exchanged for one that acts for it at the upstream (RFC 8693)."""

    client: OAuthClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Each caller's own token is sent to the upstream, which must be meant to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadIdentity:
    """What the platform says of this workload, in a file that it renews, is the grant."""

    client: OAuthClient
    assertion_file: Path


UpstreamAuth = ClientCredentials | WorkloadIdentity | TokenExchange | Forward


def is_per_caller(auth: UpstreamAuth | None) -> bool:
    """Tell whether what an upstream is sent depends on who calls."""
    return isinstance(auth, (TokenExchange, Forward))
