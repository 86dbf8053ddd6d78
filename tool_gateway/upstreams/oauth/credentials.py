"""What one upstream is sent so that it knows who asks: its own token, or its caller's."""

from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from anyio import to_thread

from tool_gateway.bearer import Bearer
from tool_gateway.egress.reach import Reach
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth.challenge import Challenge
from tool_gateway.upstreams.oauth.endpoint import Issued, TokenEndpoint
from tool_gateway.upstreams.oauth.terms import (
    ClientCredentials,
    Forward,
    OAuthClient,
    TokenExchange,
    UpstreamAuth,
    WorkloadIdentity,
)
from tool_gateway.upstreams.oauth.tokens import KeptTokens

ASSERTION_CHARS_MAX = 16_384
_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
_OWN = b""


class Credentials(Protocol):
    """What an upstream's requests carry; `bearer` is the token that the caller came with."""

    async def token(self, bearer: Bearer | None) -> str | None:
        """Return the token to send, None where there is none to send yet.

        Raises:
            UpstreamNotReachedError: there should be one, and none can be had.
        """
        ...

    async def renewed(
        self, bearer: Bearer | None, used: str | None, challenge: Challenge
    ) -> str | None:
        """Return another token after `used` was refused, None if there is no other.

        Raises:
            UpstreamNotReachedError: none can be had.
        """
        ...


class IssuedTokens:
    """Tokens that an authorization server issues to the sidecar: one of its own, or per caller."""

    def __init__(
        self,
        endpoint: TokenEndpoint,
        client: OAuthClient,
        *,
        exchanges: bool,
        assertion_file: Path | None = None,
    ) -> None:
        """Take who issues them; with `exchanges` each caller's token is exchanged for one.

        What the platform writes into `assertion_file` is the grant where there is such a file.
        """
        self._endpoint = endpoint
        self._exchanges = exchanges
        self._assertion_file = assertion_file
        self._audience = {} if client.audience is None else {"audience": client.audience}
        self._kept = KeptTokens()

    async def token(self, bearer: Bearer | None) -> str | None:
        """Return the token to send; None until the upstream has said who issues it."""
        if not self._endpoint.can_be_asked:
            return None
        return await self._kept.token(self._whose(bearer), partial(self._ask, bearer, None))

    async def renewed(
        self, bearer: Bearer | None, used: str | None, challenge: Challenge
    ) -> str | None:
        """Return another token than `used`, of the scopes that the upstream asks for."""
        wants_more = self._endpoint.wants_more(challenge)
        if challenge.wants_scopes and not wants_more:
            return None
        whose = self._whose(bearer)
        if not self._kept.refuse(whose, used, at_once=wants_more):
            return None
        return await self._kept.token(whose, partial(self._ask, bearer, challenge))

    async def _ask(self, bearer: Bearer | None, challenge: Challenge | None) -> Issued:
        if bearer is not None and self._exchanges:
            grant = {
                "grant_type": _EXCHANGE,
                "subject_token": bearer.token,
                "subject_token_type": _ACCESS_TOKEN,
                "requested_token_type": _ACCESS_TOKEN,
            }
        elif self._assertion_file is not None:
            grant = {"grant_type": _BEARER, "assertion": await _read(self._assertion_file)}
        else:
            grant = {"grant_type": "client_credentials"}
        return await self._endpoint.issued({**grant, **self._audience}, challenge=challenge)

    def _whose(self, bearer: Bearer | None) -> bytes:
        """Return what a token is kept under: a caller's is for this one token of its own."""
        if bearer is None or not self._exchanges:
            return _OWN
        return sha256(bearer.token.encode()).digest()


class Forwarded:
    """Each caller's own token; the sidecar has none for itself, and can renew none."""

    async def token(self, bearer: Bearer | None) -> str | None:
        """Return the caller's token."""
        return None if bearer is None else bearer.token

    async def renewed(
        self, bearer: Bearer | None, used: str | None, challenge: Challenge
    ) -> str | None:
        """Return None: only the caller can get another."""
        return None


async def _read(path: Path) -> str:
    """Return what the platform says now; it writes the file anew before that ends."""
    try:
        with await to_thread.run_sync(path.open) as opened:
            return (await to_thread.run_sync(opened.read, ASSERTION_CHARS_MAX)).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UpstreamNotReachedError(f"{path} cannot be read: {reason}") from error


def credentials_for(
    auth: UpstreamAuth | None, *, url: str, reach: Reach, fetcher: Fetcher
) -> Credentials | None:
    """Return what the requests to the upstream at `url` carry, None if nothing."""
    match auth:
        case None:
            return None
        case Forward():
            return Forwarded()
        case ClientCredentials(client=client) | TokenExchange(client=client):
            endpoint = TokenEndpoint(client, url=url, reach=reach, fetcher=fetcher)
            return IssuedTokens(endpoint, client, exchanges=isinstance(auth, TokenExchange))
        case WorkloadIdentity(client=client, assertion_file=path):
            endpoint = TokenEndpoint(client, url=url, reach=reach, fetcher=fetcher)
            return IssuedTokens(endpoint, client, exchanges=False, assertion_file=path)
