"""From the text of a token to whom it stands for: the signature first, then the claims."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from jwt import PyJWS
from jwt.exceptions import PyJWTError

from runtime.oauth.claims import Bearing, Refused, bearing_of
from runtime.oauth.keys import KeyRing
from runtime.oauth.terms import ServerTerms
from tool_gateway.ports import Clock
from tool_gateway.upstreams.fetching import Fetcher

TOKEN_CHARS_MAX = 16_384
VERIFIED_MAX = 4_096
_NO_TOKEN = Refused(why="this is no token of an authorization server")
_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verified:
    bearing: Bearing
    ring: KeyRing
    edition: int


class Verifier:
    """Verifies tokens of the servers that are accepted, each once for as long as it is good."""

    def __init__(
        self, servers: Iterable[ServerTerms], *, leeway_s: int, fetcher: Fetcher, clock: Clock
    ) -> None:
        """Take whose tokens; their keys are fetched when the first token comes."""
        self._leeway_s = leeway_s
        self._clock = clock
        self._rings = {
            terms.issuer: (terms, KeyRing(terms, fetcher=fetcher, clock=clock)) for terms in servers
        }
        self._verified: dict[bytes, _Verified] = {}
        self._jws = PyJWS()

    async def verified(self, token: str) -> Bearing | Refused:
        """Return whom the token stands for.

        Raises:
            UpstreamError: the server's keys cannot be had.
        """
        if len(token) > TOKEN_CHARS_MAX or token.count(".") != _PARTS - 1 or not token.isascii():
            return _NO_TOKEN
        digest = sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is not None:
            if not known.ring.is_fresh():
                await known.ring.freshen()
            if known.edition == known.ring.edition:
                return self._still(known.bearing)
        return await self._verified_anew(token, digest)

    def _still(self, bearing: Bearing) -> Bearing | Refused:
        is_over = self._clock.now_ms() >= bearing.expires_at_ms
        return Refused(why="the token has expired") if is_over else bearing

    async def _verified_anew(self, token: str, digest: bytes) -> Bearing | Refused:
        read = self._unverified(token)
        if read is None:
            return _NO_TOKEN
        header, claims = read
        terms, ring = self._rings.get(str(claims.get("iss")), (None, None))
        if terms is None or ring is None:
            return Refused(why="the token is of an issuer that is not accepted here")
        why = _unacceptable(header, terms)
        if why is not None:
            return Refused(why=why)
        algorithm, key_id = str(header["alg"]), header.get("kid")
        key = await ring.key_for(None if key_id is None else str(key_id), algorithm)
        if key is None:
            return Refused(why="the token is signed with a key that its issuer does not have")
        try:
            signed = self._jws.decode_complete(
                token, key, algorithms=[algorithm], options={"enforce_minimum_key_length": True}
            )
        except PyJWTError:
            return Refused(why="the token's signature is not good")
        found = bearing_of(
            _members(signed["payload"]),
            terms,
            leeway_s=self._leeway_s,
            now_ms=self._clock.now_ms(),
        )
        if isinstance(found, Bearing):
            self._keep(digest, _Verified(bearing=found, ring=ring, edition=ring.edition))
        return found

    def _keep(self, digest: bytes, verified: _Verified) -> None:
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.pop(next(iter(self._verified)))
        self._verified[digest] = verified

    def _unverified(self, token: str) -> tuple[Mapping[str, object], Mapping[str, object]] | None:
        """Return what the token says of itself, which only says where to look for its key.

        None for what is no token, or asks for extensions that the library does not know.
        """
        try:
            read = self._jws.decode_complete(token, options={"verify_signature": False})
        except PyJWTError:
            return None
        return read["header"], _members(read["payload"])


def _unacceptable(header: Mapping[str, object], terms: ServerTerms) -> str | None:
    """Return why a token with this header is not looked at further, None if it is."""
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in terms.algorithms:
        return "the token's algorithm is not accepted"
    if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in terms.types:
        return "the token is not an access token"
    return None


def _members(payload: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
