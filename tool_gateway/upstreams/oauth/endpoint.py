"""Asking an authorization server for tokens: where its endpoint is, and one request to it."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote_plus, urldefrag, urlencode

from tool_gateway.egress.reach import Reach
from tool_gateway.errors import UpstreamError, UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams.fetching import Fetched, Fetcher
from tool_gateway.upstreams.oauth.addresses import checked_url, reach_to
from tool_gateway.upstreams.oauth.challenge import Challenge
from tool_gateway.upstreams.oauth.metadata import (
    ResourceMetadata,
    ServerMetadata,
    Trust,
    resource_metadata,
    server_metadata,
)
from tool_gateway.upstreams.oauth.terms import ClientMethod, OAuthClient

LIFETIME_S_DEFAULT = 300
LIFETIME_S_MAX = 24 * 60 * 60
# Of all that an upstream asked for: no more is asked for, whatever it names next.
SCOPES_MAX = 64
_TOKEN_CHARS_MAX = 16_384
_CODE = re.compile(r"^[a-z_]{1,40}$")
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A token, and for how long it is good."""

    token: str = field(repr=False)
    lifetime_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where to ask, and what for."""

    url: str
    reach: Reach
    audience: str
    methods: tuple[str, ...] | None
    resource: str
    scopes: tuple[str, ...]


class TokenEndpoint:
    """One upstream's token endpoint, found when it is first needed."""

    def __init__(self, client: OAuthClient, *, url: str, reach: Reach, fetcher: Fetcher) -> None:
        """Take who asks, and the upstream's `url` that tokens are for."""
        self._client = client
        self._url = url
        self._trust = Trust(named=reach, learned=client.learned)
        self._fetcher = fetcher
        self._place: _Place | None = None

    @property
    def can_be_asked(self) -> bool:
        """Tell whether the endpoint is known without a word of the upstream's."""
        named = self._client.issuer or self._client.token_url
        return named is not None or self._place is not None

    def wants_more(self, challenge: Challenge) -> bool:
        """Tell whether a challenge names scopes that were not asked for and may be.

        Where the operator says which scopes, no server can have others asked for.
        """
        asked = () if self._place is None else self._place.scopes
        may_ask = not self._client.scopes and len(asked) < SCOPES_MAX
        return may_ask and not set(challenge.scopes) <= set(asked)

    async def issued(self, grant: Mapping[str, str], *, challenge: Challenge | None) -> Issued:
        """Return a token for `grant`; `challenge` is what the upstream has just said.

        Raises:
            UpstreamNotReachedError: there is none to be had, in words without a secret.
        """
        try:
            place = await self._found(challenge)
            form = {**grant, "resource": place.resource}
            if place.scopes:
                form["scope"] = " ".join(place.scopes)
            headers = {"content-type": "application/x-www-form-urlencoded"}
            self._prove(form, headers, place)
            answer = await self._fetcher.fetched(
                place.url, reach=place.reach, headers=headers, body=urlencode(form).encode()
            )
            return _issued(answer)
        except UpstreamError as error:
            raise UpstreamNotReachedError(f"there is no token for it: {error}") from error

    async def _found(self, challenge: Challenge | None) -> _Place:
        place = self._place
        wanted = () if challenge is None or self._client.scopes else challenge.scopes
        if place is None:
            place = await self._discovered(challenge)
            # What the upstream asks for now comes before all that it knows of.
            place = replace(place, scopes=(wanted or place.scopes)[:SCOPES_MAX])
        else:
            # What was asked for before is asked for again: one call must not undo another's.
            every = tuple(dict.fromkeys((*place.scopes, *wanted)))
            place = replace(place, scopes=every[:SCOPES_MAX])
        self._place = place
        return place

    async def _discovered(self, challenge: Challenge | None) -> _Place:
        client = self._client
        if client.token_url is not None:
            audience = client.issuer or client.token_url
            return self._placed(client.token_url, client.reach, audience, None, None)
        if client.issuer is not None:
            found = await server_metadata(self._fetcher, client.issuer, reach=client.reach)
            return self._of(found, named=client.issuer, named_reach=client.reach, resource=None)
        told = None if challenge is None else challenge.resource_metadata
        resource = await resource_metadata(self._fetcher, self._url, told=told, trust=self._trust)
        if resource is None or not resource.servers:
            raise UpstreamFailedError("it names no authorization server (RFC 9728)")
        issuer = checked_url(resource.servers[0], what="authorization_servers")
        reach = reach_to(
            issuer, named=self._url, named_reach=self._trust.named, learned=client.learned
        )
        found = await server_metadata(self._fetcher, issuer, reach=reach)
        return self._of(found, named=issuer, named_reach=reach, resource=resource)

    def _of(
        self,
        found: ServerMetadata,
        *,
        named: str,
        named_reach: Reach,
        resource: ResourceMetadata | None,
    ) -> _Place:
        if found.token_url is None:
            raise UpstreamFailedError(f"{named} has no token endpoint")
        reach = reach_to(
            found.token_url, named=named, named_reach=named_reach, learned=self._client.learned
        )
        return self._placed(found.token_url, reach, found.issuer, found.auth_methods, resource)

    def _placed(
        self,
        url: str,
        reach: Reach,
        audience: str,
        methods: tuple[str, ...] | None,
        resource: ResourceMetadata | None,
    ) -> _Place:
        told = urldefrag(self._url).url if resource is None else resource.resource
        supported = () if resource is None else resource.scopes or ()
        return _Place(
            url=url,
            reach=reach,
            audience=audience,
            methods=methods,
            resource=self._client.resource or told,
            scopes=self._client.scopes or supported,
        )

    def _prove(self, form: dict[str, str], headers: dict[str, str], place: _Place) -> None:
        """Add what says, and proves, which client asks."""
        client = self._client
        if client.client_id is not None:
            form["client_id"] = client.client_id
        match _method(client, place.methods):
            case ClientMethod.KEY:
                assert client.assertion is not None, "the method is chosen by what there is"
                form["client_assertion_type"] = _ASSERTION
                form["client_assertion"] = client.assertion(place.audience)
            case ClientMethod.POST:
                form["client_secret"] = client.secret or ""
            case ClientMethod.NONE:
                """The grant itself says who asks."""
            case ClientMethod.BASIC:
                form.pop("client_id", None)
                pair = f"{quote_plus(client.client_id or '')}:{quote_plus(client.secret or '')}"
                headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"


def _method(client: OAuthClient, supported: tuple[str, ...] | None) -> ClientMethod:
    if client.method is not None:
        return client.method
    if client.assertion is not None:
        return ClientMethod.KEY
    if client.secret is None:
        return ClientMethod.NONE
    # A server that says nothing takes the first (RFC 8414).
    for method in (ClientMethod.BASIC, ClientMethod.POST):
        if supported is None or method in supported:
            return method
    raise UpstreamFailedError("its authorization server takes no client secret")


def _issued(answer: Fetched) -> Issued:
    """Return the token of an answer.

    Raises:
        UpstreamFailedError: there is none. Descriptions may quote what was sent: only the code of
            an error is passed on.
    """
    if not answer.is_success:
        raise UpstreamFailedError(
            f"the token endpoint answered HTTP {answer.status}{_code_in(answer)}"
        )
    members = answer.members()
    token, kind = members.get("access_token"), members.get("token_type")
    if not isinstance(token, str) or not 0 < len(token) <= _TOKEN_CHARS_MAX:
        raise UpstreamFailedError("the token endpoint's answer has no token")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UpstreamFailedError("the token endpoint's token cannot be sent in a header")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise UpstreamFailedError("the token endpoint's token is not a bearer token")
    expires = members.get("expires_in")
    if not isinstance(expires, (int, float)) or isinstance(expires, bool):
        expires = LIFETIME_S_DEFAULT
    # Bounded first: JSON has integers that no float holds.
    return Issued(token=token, lifetime_s=float(max(0, min(expires, LIFETIME_S_MAX))))


def _code_in(answer: Fetched) -> str:
    try:
        code = answer.members().get("error")
    except UpstreamFailedError:
        return ""
    return f" ({code})" if isinstance(code, str) and _CODE.match(code) else ""
