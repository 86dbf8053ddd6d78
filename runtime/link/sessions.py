"""The session of a caller that names none, the same at every worker."""

import logging

from memory_store.errors import StoreError
from runtime.link.house import House
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.identity import Caller
from tool_gateway.ports import Clock
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

# A name is asked for again after this share of the time that ends a resting session: so a
# session can end that much too early, and never lives on in one worker alone.
ASKED_EVERY = 4
ASKED_EVERY_MS_MAX = 60_000


class SharedSessions(ImplicitSessions):
    """Goes by the names that one process gives for all of them."""

    def __init__(self, house: House, *, clock: Clock, idle_ms: int) -> None:
        """Take who gives the names."""
        super().__init__(clock=clock, idle_ms=idle_ms)
        self._house = house
        self._every_ms = min(idle_ms // ASKED_EVERY, ASKED_EVERY_MS_MAX)
        self._asked_at_ms: dict[str, int] = {}

    async def met(self, caller: Caller) -> None:
        """Learn the name of a caller's session, where it is not known or may be over.

        Where nobody answers, what is known stands, and a caller that is not known is refused.
        """
        token_id, now_ms = caller.token_id, self._clock.now_ms()
        name, seen_ms = self._open.get(token_id, ("", now_ms))
        asked_at_ms = self._asked_at_ms.get(token_id)
        if name and asked_at_ms is not None and abs(now_ms - asked_at_ms) < self._every_ms:
            return
        try:
            found = await self._house.session_of(
                token_id, known=name or None, touched_at_ms=seen_ms
            )
        except StoreError:
            count_failure("implicit_sessions")
            return
        if found.is_pinned:
            self.bind(token_id, found.name)
        elif token_id in self._bound:
            # Who gives the names began anew. The key may not become one for all sessions by that.
            return
        named = found.name
        self._asked_at_ms[token_id] = now_ms
        self._keep(token_id, named, seen_ms if named == name else now_ms)
        while len(self._asked_at_ms) > len(self._open):
            del self._asked_at_ms[next(iter(self._asked_at_ms))]
        for gone in [one for one in self._bound if one not in self._open]:
            self.release(gone)

    def pin_of(self, token_id: str) -> str | None:
        """Return the name of the only session that a token stands for, None without one.

        Raises:
            LedgerUnavailableError: nobody could say whether there is one.
        """
        if token_id not in self._open:
            raise LedgerUnavailableError
        return super().pin_of(token_id)

    def name_for(self, token_id: str) -> str:
        """Return the name of the token's session.

        Raises:
            LedgerUnavailableError: nobody could say which it is.
        """
        name, _ = self._open.get(token_id, ("", 0))
        if not name:
            raise LedgerUnavailableError
        self._open.move_to_end(token_id)
        return name
