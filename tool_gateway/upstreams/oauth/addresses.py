"""Where OAuth's documents stand for an issuer or a resource, and which addresses are taken.

RFC 8414 and RFC 9728 put the well-known part before the path; OpenID Connect puts it behind.
"""

from urllib.parse import urlsplit

from tool_gateway.egress.reach import Reach, is_loopback_host
from tool_gateway.errors import UpstreamFailedError

URL_CHARS_MAX = 2_048
_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


def origin_text(url: str) -> str:
    """Return the scheme, host and port of a URL, comparable with others."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def resource_metadata_urls(resource: str) -> tuple[str, ...]:
    """Return where the metadata of a resource may stand, the likeliest first."""
    parts = urlsplit(resource)
    root = f"{parts.scheme}://{parts.netloc}{_RESOURCE}"
    path = parts.path.rstrip("/")
    return (f"{root}{path}", root) if path else (root,)


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return where the metadata of an authorization server may stand, the likeliest first."""
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return (f"{root}{_SERVER}", f"{root}{_OPENID}")
    return (f"{root}{_SERVER}{path}", f"{root}{_OPENID}{path}", f"{root}{path}{_OPENID}")


def covers(resource: str, url: str) -> bool:
    """Tell whether what a document says is its resource is what `url` belongs to.

    The same origin, and its path or one above it.
    """
    try:
        is_of_it = origin_text(resource) == origin_text(url)
    except ValueError:
        return False  # a server may call anything its resource
    if not is_of_it:
        return False
    above, path = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
    return path == above or path.startswith(f"{above}/")


def checked_url(url: object, *, what: str) -> str:
    """Return a URL that a server told, if tokens and secrets may be sent there.

    Raises:
        UpstreamFailedError: it is none, or not protected on its way.
    """
    if not isinstance(url, str) or len(url) > URL_CHARS_MAX:
        raise UpstreamFailedError(f"{what}: it is no URL")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # Only an address of version 6 has a zone.
        is_host = bool(host) and ("%" not in host or ":" in host)
        is_whole = is_host and parts.username is None and parts.port != 0
    except ValueError as error:
        raise UpstreamFailedError(f"{what}: it is no URL") from error
    is_protected = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
    if not is_whole or not is_protected or parts.fragment:
        raise UpstreamFailedError(f"{what}: {url[:200]!r} is no https address")
    return url


def reach_to(url: str, *, named: str, named_reach: Reach, learned: Reach) -> Reach:
    """Return where a URL that a server told may lead.

    On the origin that the operator named it has that one's reach, elsewhere the strict one.
    """
    return named_reach if origin_text(url) == origin_text(named) else learned
