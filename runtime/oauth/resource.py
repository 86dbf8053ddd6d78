"""What this sidecar tells clients about itself as a protected resource (RFC 9728)."""

import json
from http import HTTPStatus
from urllib.parse import urlsplit

from runtime.failures import INVALID_REQUEST, Problem
from runtime.oauth.terms import ResourceTerms
from tool_gateway.upstreams.oauth.addresses import resource_metadata_urls

ROOT = "/.well-known/oauth-protected-resource"


def document_of(terms: ResourceTerms) -> bytes:
    """Return the metadata document."""
    document: dict[str, object] = {
        "resource": terms.resource,
        "authorization_servers": [server.issuer for server in terms.servers],
        "bearer_methods_supported": ["header"],
        "resource_name": "Flyball",
    }
    if terms.scopes or terms.write_scopes:
        scopes = dict.fromkeys((*terms.scopes, *terms.write_scopes))
        document["scopes_supported"] = list(scopes)
    return json.dumps(document).encode()


def document_paths(terms: ResourceTerms) -> frozenset[str]:
    """Return where the document is served: at the resource's own place, and at the root."""
    own = urlsplit(resource_metadata_urls(terms.resource)[0]).path
    return frozenset({ROOT, f"{ROOT}/mcp", own})


def unauthenticated(terms: ResourceTerms, *, why: str | None = None) -> Problem:
    """Return what a request without a good token is told; `why` is about the one that it has."""
    error = None if why is None else "invalid_token"
    detail = "Send an access token of an authorization server, or one of Flyball's own."
    return Problem(
        status=HTTPStatus.UNAUTHORIZED,
        code=INVALID_REQUEST,
        title="Unauthenticated",
        detail=detail if why is None else f"{_sentence(why)} {detail}",
        headers={"WWW-Authenticate": _challenge(terms, error=error, why=why)},
    )


def insufficient(terms: ResourceTerms) -> Problem:
    """Return what a token without the scopes is told."""
    needed = " ".join(terms.scopes)
    return Problem(
        status=HTTPStatus.FORBIDDEN,
        code=INVALID_REQUEST,
        title="Insufficient scope",
        detail=f"The token needs these scopes: {needed}.",
        headers={"WWW-Authenticate": _challenge(terms, error="insufficient_scope", why=None)},
    )


def _challenge(terms: ResourceTerms, *, error: str | None, why: str | None) -> str:
    parts = [] if error is None else [("error", error)]
    if why is not None:
        parts.append(("error_description", why))
    if terms.scopes:
        parts.append(("scope", " ".join(terms.scopes)))
    parts.append(("resource_metadata", resource_metadata_urls(terms.resource)[0]))
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts)


def _sentence(why: str) -> str:
    return f"{why[0].upper()}{why[1:]}."
