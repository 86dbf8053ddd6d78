"""Visits: browsers that have signed in, known by what their cookie hashes to."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

VISITS_MAX = 256
# Whoever works on sees the sign-in page once in a working day.
LASTS_MS = 12 * 60 * 60 * 1000


@dataclass(slots=True, kw_only=True)
class Visit:
    """One browser that has signed in.

    Of the administrator's token only the hash is kept: it is looked up again at each request,
    so that a token which is revoked or expires ends its visits. `tenant` is whose things are
    shown, None for everybody's.
    """

    key: str
    secret_hash: str
    csrf: str
    begun_at_ms: int
    seen_at_ms: int
    tenant: str | None = None
    notice: str | None = None

    def take_notice(self) -> str | None:
        """Return what was done, once."""
        told, self.notice = self.notice, None
        return told


class Visits:
    """The visits of one process, bounded in number and in time."""

    def __init__(self, *, draw: Callable[[], str], idle_ms: int) -> None:
        """Take where random text comes from, and after how long without a request one ends."""
        self._draw = draw
        self._idle_ms = idle_ms
        self._by_key: dict[str, Visit] = {}

    def __len__(self) -> int:
        """Return how many there are, some of which may have ended by time."""
        return len(self._by_key)

    def begin(self, secret_hash: str, *, now_ms: int) -> str:
        """Return what the cookie of a new visit holds; the oldest one makes room."""
        self._forget_ended(now_ms)
        while len(self._by_key) >= VISITS_MAX:
            self._by_key.pop(next(iter(self._by_key)))
        cookie = self._draw()
        visit = Visit(
            key=_key_of(cookie),
            secret_hash=secret_hash,
            csrf=self._draw(),
            begun_at_ms=now_ms,
            seen_at_ms=now_ms,
        )
        self._by_key[visit.key] = visit
        return cookie

    def find(self, cookie: str, *, now_ms: int, by_itself: bool = False) -> Visit | None:
        """Return the visit of a cookie, seen at this moment; None if it ended or never was.

        A page that asks `by_itself` makes nobody seen: a browser left alone gets idle.
        """
        visit = self._by_key.get(_key_of(cookie))
        if visit is None:
            return None
        if self._has_ended(visit, now_ms):
            self.end(visit)
            return None
        if not by_itself:
            visit.seen_at_ms = now_ms
        return visit

    def end(self, visit: Visit) -> None:
        """Know the visit no more."""
        self._by_key.pop(visit.key, None)

    def _forget_ended(self, now_ms: int) -> None:
        for visit in [one for one in self._by_key.values() if self._has_ended(one, now_ms)]:
            self.end(visit)

    def _has_ended(self, visit: Visit, now_ms: int) -> bool:
        # A clock that steps back must not make it last.
        is_idle = abs(now_ms - visit.seen_at_ms) > self._idle_ms
        return is_idle or abs(now_ms - visit.begun_at_ms) > LASTS_MS


def _key_of(cookie: str) -> str:
    """Return what a cookie is known by, which takes the same time whatever is guessed right."""
    return hashlib.sha256(cookie.encode()).hexdigest()
