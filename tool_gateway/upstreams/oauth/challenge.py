"""What a server that refuses a request says it wants instead (RFC 6750, RFC 9728)."""

import re
from dataclasses import dataclass
from http import HTTPStatus

HEADER_CHARS_MAX = 8_192
_SCOPES_MAX = 64
# In a challenge of the scheme Bearer; other schemes beside it are not looked at.
_BEARER = re.compile(r"(?:^|,)\s*bearer(?:\s+|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'\s*([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A refusal with 401, or with 403 for want of scopes."""

    status: int
    scopes: tuple[str, ...] = ()
    resource_metadata: str | None = None

    @property
    def wants_scopes(self) -> bool:
        """Tell whether the token was good, and is good for too little."""
        return self.status == HTTPStatus.FORBIDDEN


def challenge_of(status: int, header: str) -> Challenge | None:
    """Return what an answer challenges its sender to do, None if it is no challenge."""
    told = _parameters(header[:HEADER_CHARS_MAX])
    if status == HTTPStatus.FORBIDDEN and told.get("error") != "insufficient_scope":
        return None
    if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return None
    return Challenge(
        status=status,
        scopes=tuple(dict.fromkeys(told.get("scope", "").split()))[:_SCOPES_MAX],
        resource_metadata=told.get("resource_metadata"),
    )


def _parameters(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    begun = _BEARER.search(header)
    at = len(header) if begun is None else begun.end()
    while (match := _PARAMETER.match(header, at)) is not None:
        quoted = match[2]
        value = match[3] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        found.setdefault(match[1].lower(), value)
        at = match.end()
    return found
