"""The public keys of an authorization server: fetched, kept for a while, found by their id.

Servers change their keys by announcing a new one before they sign with it. So an id that is
not known is a reason to fetch, though not more often than every few seconds: whoever sends
made-up ids must not have us knock at the server for each. Where the server cannot be reached the
keys that are known serve on, for a bounded time.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from runtime.oauth.terms import ServerTerms
from tool_gateway.errors import UpstreamError, UpstreamFailedError
from tool_gateway.ports import Clock
from tool_gateway.upstreams.fetching import Fetcher
from tool_gateway.upstreams.oauth.addresses import checked_url, reach_to
from tool_gateway.upstreams.oauth.metadata import server_metadata

logger = logging.getLogger(__name__)

FRESH_MS = 10 * 60 * 1000
STALE_MS_MAX = 6 * 60 * 60 * 1000
FETCH_EVERY_MS = 10_000
KEYS_MAX = 64
_KINDS = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """What was fetched, and when."""

    by_id: Mapping[str | None, tuple[Mapping[str, object], ...]]
    at_ms: int


class KeyRing:
    """The keys of one server."""

    def __init__(self, terms: ServerTerms, *, fetcher: Fetcher, clock: Clock) -> None:
        """Take whose keys; nothing is fetched yet."""
        self._terms = terms
        self._fetcher = fetcher
        self._clock = clock
        self._keys: _Keys | None = None
        self._made: dict[tuple[str | None, str], PyJWK] = {}  # no more than there are keys
        self._asked_ms: int | None = None
        self._fetching = anyio.Lock()
        self.edition = 0  # another one once keys were added or taken back

    def is_fresh(self) -> bool:
        """Tell whether the keys need not be fetched again yet."""
        return self._age_ms() <= FRESH_MS

    async def freshen(self) -> None:
        """Fetch the keys again if it is time; who finds that being done goes on with the old ones.

        Raises:
            UpstreamError: the keys cannot be had, and none that are known may serve.
        """
        is_waited_for = self._fetching.locked() and self._age_ms() <= STALE_MS_MAX
        if not self.is_fresh() and not is_waited_for:
            await self._refresh()

    async def key_for(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key that a token names, None if there is no such key of the server's.

        Raises:
            UpstreamError: the keys cannot be had, and none that are known may serve.
        """
        await self.freshen()
        found = self._found(key_id, algorithm)
        if found is None and await self._refresh():
            found = self._found(key_id, algorithm)
        return found

    def _age_ms(self) -> int:
        # A clock that steps back must not keep keys for ever.
        if self._keys is None:
            return STALE_MS_MAX + 1
        return abs(self._clock.elapsed_ms() - self._keys.at_ms)

    def _found(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        assert self._keys is not None, "what cannot be had is an error"
        made = self._made.get((key_id, algorithm))
        if made is not None:
            return made
        fitting = [key for key in self._keys.by_id.get(key_id, ()) if _fits(key, algorithm)]
        if len(fitting) != 1:
            return None  # none, or nobody knows which
        try:
            made = PyJWK(dict(fitting[0]), algorithm=algorithm)
        except PyJWTError:
            logger.warning("%s has a key that is none: %r", self._terms.issuer, key_id)
            return None
        self._made[key_id, algorithm] = made
        return made

    async def _refresh(self) -> bool:
        """Fetch the keys unless that was tried a moment ago; tell whether they are new.

        Raises:
            UpstreamError: that failed, and none that are known may serve.
        """
        asked_before = self._asked_ms
        async with self._fetching:
            if self._asked_ms != asked_before:
                return True  # somebody else has fetched them meanwhile
            now_ms = self._clock.elapsed_ms()
            if self._asked_ms is not None and now_ms - self._asked_ms < FETCH_EVERY_MS:
                return self._or_stale("its keys cannot be had")
            self._asked_ms = now_ms
            try:
                found = await self._fetched()
            except UpstreamError as error:
                logger.warning("keys of %s: %s", self._terms.issuer, error)
                return self._or_stale(f"its keys cannot be had: {error}")
            if self._keys is None or found != self._keys.by_id:
                self.edition += 1
            self._keys = _Keys(by_id=found, at_ms=now_ms)
            self._made.clear()
            return True

    def _or_stale(self, why: str) -> bool:
        if self._age_ms() > STALE_MS_MAX:
            raise UpstreamFailedError(f"{self._terms.issuer}: {why}")
        return False

    async def _fetched(self) -> dict[str | None, tuple[Mapping[str, object], ...]]:
        url, reach = self._terms.jwks_url, self._terms.reach
        if url is None:
            told = await server_metadata(self._fetcher, self._terms.issuer, reach=reach)
            url = checked_url(told.jwks_url, what="jwks_uri")
            issuer, learned = self._terms.issuer, self._terms.learned
            reach = reach_to(url, named=issuer, named_reach=reach, learned=learned)
        answer = await self._fetcher.fetched(url, reach=reach)
        if not answer.is_success:
            raise UpstreamFailedError(f"the server answered HTTP {answer.status}")
        keys = answer.members().get("keys")
        if not isinstance(keys, list):
            raise UpstreamFailedError("there are no keys in the answer")
        found: dict[str | None, tuple[Mapping[str, object], ...]] = {}
        for key in keys[:KEYS_MAX]:
            if isinstance(key, dict) and _may_verify(key):
                key_id = key.get("kid")
                for name in {None, key_id if isinstance(key_id, str) else None}:
                    found[name] = (*found.get(name, ()), key)
        return found


def _may_verify(key: Mapping[str, object]) -> bool:
    """Tell whether this is a public key that is there for signatures."""
    kind, operations = key.get("kty"), key.get("key_ops")
    is_for_it = not isinstance(operations, list) or "verify" in operations
    is_known = isinstance(kind, str) and kind in _KINDS
    return is_known and key.get("use", "sig") == "sig" and is_for_it


def _fits(key: Mapping[str, object], algorithm: str) -> bool:
    kinds = _KINDS[str(key["kty"])]
    return algorithm.startswith(kinds) and key.get("alg", algorithm) == algorithm
