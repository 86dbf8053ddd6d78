"""Visits: browsers that have signed in, known by what their cookie hashes to."""

import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from governor.ids import TenantId
from memory_store.errors import StoreError
from memory_store.visits import KeptVisit

# Whoever works on sees the sign-in page once in a working day.
LASTS_MS = 12 * 60 * 60 * 1000
# How exactly it is known when somebody was there last: a page is read far more often than that.
SEEN_EVERY_MS = 60 * 1000
# Of a short pause after which a visit ends, a smaller part is as exact.
_SEEN_PARTS = 10


class VisitKeeper(Protocol):
    """Whoever keeps the visits of all sidecars."""

    async def begin(self, visit: KeptVisit, *, begun_since_ms: int, seen_since_ms: int) -> None:
        """Store a new visit; those that began or were seen before go."""
        ...

    async def find(self, visit_key: str) -> KeptVisit | None:
        """Return the visit as it is now, None where there is none."""
        ...

    async def see(self, visit_key: str, *, at_ms: int) -> None:
        """Note that somebody was there."""
        ...

    async def show(self, visit_key: str, tenant: TenantId | None) -> None:
        """Show the things of one tenant from now on, or everybody's."""
        ...

    async def tell(self, visit_key: str, notice: str) -> None:
        """Keep what was done, to be said on the next page."""
        ...

    async def take(self, visit_key: str, notice: str) -> bool:
        """Tell whether `notice` is still to be said; nobody is told so again."""
        ...

    async def end(self, visit_key: str) -> None:
        """Know the visit no more, at any sidecar."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One browser that has signed in, as it stands at this request.

    Of the administrator's token only the hash is kept: it is looked up again at each request,
    so that a token which is revoked or expires ends its visits. `tenant` is whose things are
    shown, None for everybody's; `notice` is what was done and is still to be said.
    """

    key: str
    secret_hash: str
    csrf: str
    tenant: str | None
    notice: str | None


class Visits:
    """The visits of every sidecar that shares the database, bounded in time."""

    def __init__(self, *, keeper: VisitKeeper, draw: Callable[[], str], idle_ms: int) -> None:
        """Take where visits are kept, random text comes from, and how long one may pause."""
        self._keeper = keeper
        self._draw = draw
        self._idle_ms = idle_ms
        self._seen_every_ms = min(SEEN_EVERY_MS, idle_ms // _SEEN_PARTS)

    async def begin(self, secret_hash: str, *, now_ms: int) -> str:
        """Return what the cookie of a new visit holds; the oldest one makes room.

        Raises:
            StoreError: it cannot be kept.
        """
        cookie = self._draw()
        visit = KeptVisit(
            visit_key=_key_of(cookie),
            secret_hash=secret_hash,
            begun_at_ms=now_ms,
            seen_at_ms=now_ms,
        )
        await self._keeper.begin(
            visit, begun_since_ms=now_ms - LASTS_MS, seen_since_ms=now_ms - self._idle_ms
        )
        return cookie

    async def find(self, cookie: str, *, now_ms: int, by_itself: bool = False) -> Visit | None:
        """Return the visit of a cookie, seen at this moment; None if it ended or never was.

        A page that asks `by_itself` makes nobody seen: a browser left alone gets idle.

        Raises:
            StoreError: it cannot be looked up.
        """
        kept = await self._keeper.find(_key_of(cookie))
        if kept is None:
            return None
        if self._has_ended(kept, now_ms):
            with suppress(StoreError):
                await self.end(kept.visit_key)
            return None
        if not by_itself and abs(now_ms - kept.seen_at_ms) >= self._seen_every_ms:
            # A page is shown though nobody can note who looked at it: when a disk is full, that
            # is what an administrator comes to see.
            with suppress(StoreError):
                await self._keeper.see(kept.visit_key, at_ms=now_ms)
        return Visit(
            key=kept.visit_key,
            secret_hash=kept.secret_hash,
            csrf=_csrf_of(cookie),
            tenant=kept.tenant,
            notice=kept.notice,
        )

    async def show(self, visit: Visit, tenant: str | None) -> None:
        """Show the things of one tenant from now on, or everybody's."""
        await self._keeper.show(visit.key, None if tenant is None else TenantId(tenant))

    async def tell(self, visit: Visit, notice: str) -> None:
        """Say on the next page what was done; it is done though it cannot be said."""
        with suppress(StoreError):
            await self._keeper.tell(visit.key, notice)

    async def take_notice(self, visit: Visit) -> str | None:
        """Return what was done, once."""
        if visit.notice is None:
            return None
        with suppress(StoreError):
            if await self._keeper.take(visit.key, visit.notice):
                return visit.notice
        return None

    async def end(self, visit_key: str) -> None:
        """Know the visit no more.

        Raises:
            StoreError: it is known for longer.
        """
        await self._keeper.end(visit_key)

    def _has_ended(self, visit: KeptVisit, now_ms: int) -> bool:
        # A clock that steps back must not make it last.
        is_idle = abs(now_ms - visit.seen_at_ms) > self._idle_ms
        return is_idle or abs(now_ms - visit.begun_at_ms) > LASTS_MS


def _key_of(cookie: str) -> str:
    """Return what a cookie is known by, which takes the same time whatever is guessed right."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def _csrf_of(cookie: str) -> str:
    """Return what forms carry: whoever reads it, or the database, does not learn the cookie."""
    return hmac.digest(cookie.encode(), b"forms of the console", "sha256").hex()
