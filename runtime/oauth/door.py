"""Who a caller with an authorization server's token is here, or what it is told instead."""

import logging
from http import HTTPStatus

from memory_store.audit import Actor
from memory_store.errors import AlreadyExistsError, NotFoundError
from memory_store.identities import Identity, Role
from memory_store.principals import PrincipalBook
from runtime.failures import INVALID_REQUEST, UNAVAILABLE, Problem
from runtime.oauth.claims import Bearing, Refused
from runtime.oauth.resource import insufficient, unauthenticated
from runtime.oauth.terms import ResourceTerms
from runtime.oauth.verification import Verifier
from tool_gateway import telemetry
from tool_gateway.bearer import Bearer
from tool_gateway.errors import UpstreamError
from tool_gateway.identity import Caller
from tool_gateway.ports import Clock
from tool_gateway.upstreams.fetching import Fetcher

logger = logging.getLogger(__name__)

_ACTOR = Actor(name="oauth")


class OAuthDoor:
    """Lets in whose token is good, has the scopes, and stands for an agent of this sidecar."""

    def __init__(
        self, terms: ResourceTerms, verifier: Verifier, *, principals: PrincipalBook, clock: Clock
    ) -> None:
        """Take what is asked of a token, and who there is."""
        self.terms = terms
        self._verifier = verifier
        self._principals = principals
        self._clock = clock
        self._makes_agents = {server.issuer: server.makes_agents for server in terms.servers}

    async def caller_of(self, token: str) -> Caller | Problem:
        """Return whom the token stands for, or what its sender is told.

        Raises:
            StoreUnavailableError: nobody can be looked up.
        """
        try:
            bearing = await self._verifier.verified(token)
        except UpstreamError as error:
            telemetry.count_failure("oauth_keys")
            logger.warning("a token cannot be verified: %s", error)
            return _UNVERIFIABLE
        if isinstance(bearing, Refused):
            return unauthenticated(self.terms, why=bearing.why)
        if not bearing.scopes.issuperset(self.terms.scopes):
            return insufficient(self.terms)
        identity = await self._identity_of(bearing)
        if identity is None:
            return _stranger(bearing)
        return Caller(
            tenant=identity.tenant,
            agent=identity.principal,
            token_id=bearing.token_id,
            bearer=Bearer(token=token, expires_at_ms=bearing.expires_at_ms),
            is_read_only=not bearing.scopes.issuperset(self.terms.write_scopes),
        )

    async def _identity_of(self, bearing: Bearing) -> Identity | None:
        known = await self._principals.identity_of(bearing.agent, now_ms=self._clock.now_ms())
        if known is None and self._makes_agents[bearing.issuer]:
            known = await self._made(bearing)
        # An id is one tenant's: who comes from another is somebody else of the same name.
        if known is None or known.tenant != bearing.tenant or known.role is not Role.AGENT:
            return None
        return known

    async def _made(self, bearing: Bearing) -> Identity | None:
        now_ms = self._clock.now_ms()
        try:
            await self._principals.create(
                bearing.agent,
                tenant=bearing.tenant,
                name=bearing.name,
                role=Role.AGENT,
                by=_ACTOR,
                now_ms=now_ms,
            )
        except (AlreadyExistsError, NotFoundError):
            return None  # disabled, or of a tenant that there is not
        return await self._principals.identity_of(bearing.agent, now_ms=now_ms)


def door_for(
    terms: ResourceTerms | None, principals: PrincipalBook, *, clock: Clock
) -> OAuthDoor | None:
    """Return the door for what an operator said, None where nobody but us issues tokens."""
    if terms is None:
        return None
    verifier = Verifier(terms.servers, leeway_s=terms.leeway_s, fetcher=Fetcher(), clock=clock)
    return OAuthDoor(terms, verifier, principals=principals, clock=clock)


_UNVERIFIABLE = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code=UNAVAILABLE,
    title="Authorization server unavailable",
    detail="The token cannot be verified now: its authorization server does not answer.",
    headers={"Retry-After": "10"},
)


def _stranger(bearing: Bearing) -> Problem:
    """Return the same for an agent that is not there and for one that is switched off."""
    return Problem(
        status=HTTPStatus.FORBIDDEN,
        code=INVALID_REQUEST,
        title="Forbidden",
        detail=f"The token is good, but no agent {bearing.agent} of tenant {bearing.tenant} may "
        "call here; an administrator can make it, or set make_agents for the server.",
    )
