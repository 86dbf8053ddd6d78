"""The documents of authorization servers and protected resources, held to their own word."""

from collections.abc import Iterable
from dataclasses import dataclass

from tool_gateway.egress.reach import Reach
from tool_gateway.errors import UpstreamError, UpstreamFailedError
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth.addresses import (
    checked_url,
    covers,
    reach_to,
    resource_metadata_urls,
    server_metadata_urls,
)

_NAMES_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Where discovery may lead: what the operator named, and what was learned from there."""

    named: Reach
    learned: Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMetadata:
    """What a protected resource says of itself (RFC 9728)."""

    resource: str
    servers: tuple[str, ...]
    scopes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """What an authorization server says of itself (RFC 8414); None where it says nothing."""

    issuer: str
    token_url: str | None
    jwks_url: str | None
    auth_methods: tuple[str, ...] | None
    scopes: tuple[str, ...] | None


async def resource_metadata(
    fetcher: Fetcher, url: str, *, told: str | None, trust: Trust
) -> ResourceMetadata | None:
    """Return the metadata of the resource at `url`, None where it has none.

    `told` is where the resource itself says that it stands.

    Raises:
        UpstreamError: the document is of another resource, or stands where it may not.
    """
    places = (
        (told, *resource_metadata_urls(url)) if told is not None else resource_metadata_urls(url)
    )
    for place in dict.fromkeys(places):
        if place == told:
            checked_url(place, what="resource_metadata")
        reach = reach_to(place, named=url, named_reach=trust.named, learned=trust.learned)
        found = await _document(fetcher, place, reach=reach)
        if found is None:
            continue
        resource = found.get("resource")
        if not isinstance(resource, str) or not covers(resource, url):
            raise UpstreamFailedError(f"its metadata is that of {resource!r:.200}, not of {url}")
        return ResourceMetadata(
            resource=resource,
            servers=_texts(found, "authorization_servers") or (),
            scopes=_texts(found, "scopes_supported"),
        )
    return None


async def server_metadata(fetcher: Fetcher, issuer: str, *, reach: Reach) -> ServerMetadata:
    """Return the metadata of an authorization server, which must call itself `issuer`.

    Raises:
        UpstreamError: it cannot be had, or is another's.
    """
    return await first_metadata(fetcher, server_metadata_urls(issuer), issuer=issuer, reach=reach)


async def first_metadata(
    fetcher: Fetcher, places: Iterable[str], *, issuer: str, reach: Reach
) -> ServerMetadata:
    """Return the first document that stands at one of `places`.

    Raises:
        UpstreamError: there is none, or it is of another issuer.
    """
    for place in places:
        found = await _document(fetcher, place, reach=reach)
        if found is None:
            continue
        if found.get("issuer") != issuer:
            # Whoever answers for another issuer would be sent its secrets (RFC 8414, 3.3).
            told = found.get("issuer")
            raise UpstreamFailedError(f"the metadata of {issuer} says that it is {told!r:.200}")
        return ServerMetadata(
            issuer=issuer,
            token_url=_url(found, "token_endpoint"),
            jwks_url=_url(found, "jwks_uri"),
            auth_methods=_texts(found, "token_endpoint_auth_methods_supported"),
            scopes=_texts(found, "scopes_supported"),
        )
    raise UpstreamFailedError(f"{issuer} has no metadata")


async def _document(fetcher: Fetcher, url: str, *, reach: Reach) -> dict[str, object] | None:
    answer = await fetcher.fetched(url, reach=reach)
    if not answer.is_success:
        return None
    try:
        return answer.members()
    except UpstreamError as error:
        raise UpstreamFailedError(f"{url}: {error}") from error


def _url(found: dict[str, object], name: str) -> str | None:
    return None if found.get(name) is None else checked_url(found[name], what=name)


def _texts(found: dict[str, object], name: str) -> tuple[str, ...] | None:
    values = found.get(name)
    if not isinstance(values, list):
        return None
    return tuple(value for value in values[:_NAMES_MAX] if isinstance(value, str))
