"""What a token whose signature is good says, and whether that is enough: pure decisions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from governor.ids import PrincipalId, TenantId
from runtime.naming import ID_PATTERN
from runtime.oauth.terms import ServerTerms

_ID = re.compile(ID_PATTERN)
# A token that says it is good for longer is believed no longer than this.
LIFETIME_S_MAX = 7 * 24 * 60 * 60
_HASHED = "o-"
_HASHED_CHARS = 24
_ID_CHARS = 16
_NAME_CHARS_MAX = 200
# Beyond it a number of seconds is no time, and none that a float holds exactly.
_SECONDS_MAX = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A token is not accepted; `why` is for whoever sent it and quotes nothing of it."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearing:
    """Whom a token stands for, what it is for, and until when.

    `token_id` stays the same when the token is renewed, so that an unnamed session goes on then.
    """

    tenant: TenantId
    agent: PrincipalId
    name: str
    scopes: frozenset[str]
    expires_at_ms: int
    issuer: str
    token_id: str


def bearing_of(
    claims: Mapping[str, object], terms: ServerTerms, *, leeway_s: int, now_ms: int
) -> Bearing | Refused:
    """Return whom the claims stand for, or why they stand for nobody."""
    expires_at_ms = _end_of(claims, leeway_s=leeway_s, now_ms=now_ms)
    tenant = _tenant_of(claims, terms)
    refused = [one for one in (expires_at_ms, tenant) if isinstance(one, Refused)]
    why = _misdirected(claims, terms)
    if why is not None:
        return Refused(why=why)
    if refused:
        return refused[0]
    assert isinstance(expires_at_ms, int), "the others were refused"
    assert isinstance(tenant, str), "the others were refused"
    value = claims.get(terms.agent_claim)
    if not isinstance(value, str) or not value:
        return Refused(why=f"the token has no {terms.agent_claim}")
    agent = agent_id(value, terms)
    whose = sha256(f"{terms.issuer}\n{tenant}\n{agent}".encode()).hexdigest()
    return Bearing(
        tenant=tenant,
        agent=agent,
        token_id=f"oauth_{whose[:_ID_CHARS]}",
        name=value[:_NAME_CHARS_MAX],
        scopes=_scopes_of(claims),
        expires_at_ms=expires_at_ms,
        issuer=terms.issuer,
    )


def _misdirected(claims: Mapping[str, object], terms: ServerTerms) -> str | None:
    """Return why a token is none for this resource to take, None if it is one."""
    if claims.get("iss") != terms.issuer:
        return "the token is of another issuer"
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if terms.audiences.isdisjoint({one for one in named if isinstance(one, str)}):
        return "the token is for another resource"
    if "cnf" in claims:
        # Bound to a key that its bearer would have to prove, which is not asked here.
        return "the token is bound to a key; a bearer token is expected"
    return None


def agent_id(value: str, terms: ServerTerms) -> PrincipalId:
    """Return the principal of a claim: its value, or a hash of one that is no id.

    What looks like such a hash is hashed too: nobody can be called as another is.
    """
    plain = f"{terms.agent_prefix}{value}"
    if _ID.match(plain) and not value.startswith(_HASHED):
        return PrincipalId(plain)
    hashed = sha256(f"{terms.issuer}\n{value}".encode(errors="surrogatepass")).hexdigest()
    return PrincipalId(f"{terms.agent_prefix}{_HASHED}{hashed[:_HASHED_CHARS]}")


def _end_of(claims: Mapping[str, object], *, leeway_s: int, now_ms: int) -> int | Refused:
    """Return when the token ends, in milliseconds; who made it may have another clock."""
    expires, begins, issued = (_seconds(claims.get(name)) for name in ("exp", "nbf", "iat"))
    now_s = now_ms / 1000
    if expires is None:
        return Refused(why="the token has no expiry")
    if expires + leeway_s <= now_s:
        return Refused(why="the token has expired")
    if begins is not None and begins - leeway_s > now_s:
        return Refused(why="the token is not good yet")
    if issued is not None and issued - leeway_s > now_s:
        return Refused(why="the token was issued in the future")
    return int(min(expires + leeway_s, now_s + LIFETIME_S_MAX) * 1000)


def _seconds(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if abs(value) < _SECONDS_MAX else None


def _tenant_of(claims: Mapping[str, object], terms: ServerTerms) -> TenantId | Refused:
    if terms.tenant_claim is None:
        return terms.tenant
    value = claims.get(terms.tenant_claim)
    if not isinstance(value, str) or not _ID.match(value):
        return Refused(why=f"the token has no {terms.tenant_claim} that is a tenant")
    return TenantId(value)


def _scopes_of(claims: Mapping[str, object]) -> frozenset[str]:
    """Return the scopes: text as RFC 9068 has them, or a list as some servers write."""
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            return frozenset(value.split())
        if isinstance(value, list):
            return frozenset(one for one in value if isinstance(one, str))
    return frozenset()
