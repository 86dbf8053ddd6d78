"""Tokens that were issued, kept until shortly before they end, each asked for once at a time."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.upstreams.oauth.endpoint import Issued

KEPT_MAX = 1_024
# So long before its end a token is replaced, or at a tenth of a short life.
MARGIN_S = 60.0
_MARGIN_SHARE = 0.1
# A server that could not give a token, or gave one that is refused, is left alone for a moment.
PAUSE_S = 5.0


@dataclass(slots=True)
class _Slot:
    token: str | None = field(default=None, repr=False)
    good_until: float = 0.0
    issued_at: float = float("-inf")
    failed_at: float = float("-inf")
    hurried_at: float = float("-inf")
    why: str = ""
    asking: anyio.Lock = field(default_factory=anyio.Lock)


class KeptTokens:
    """Tokens by whom they are for; the ones that rested longest are forgotten first."""

    def __init__(self) -> None:
        self._slots: OrderedDict[bytes, _Slot] = OrderedDict()

    async def token(self, whose: bytes, ask: Callable[[], Awaitable[Issued]]) -> str:
        """Return a token that is good, asking for it if there is none.

        Raises:
            UpstreamNotReachedError: there is none to be had, or was none a moment ago.
        """
        slot = self._slot(whose)
        if slot.token is not None and anyio.current_time() < slot.good_until:
            return slot.token
        async with slot.asking:
            if slot.token is not None and anyio.current_time() < slot.good_until:
                return slot.token  # somebody else has asked meanwhile
            if anyio.current_time() - slot.failed_at < PAUSE_S:
                raise UpstreamNotReachedError(slot.why)
            try:
                return self._keep(slot, await ask())
            except UpstreamNotReachedError as error:
                slot.failed_at, slot.why = anyio.current_time(), str(error)
                raise

    def refuse(self, whose: bytes, token: str | None, *, at_once: bool) -> bool:
        """Take note that the upstream refused a token; tell whether another may be had.

        One that was issued just now would be followed by its like, unless it is `at_once` clear
        that the next will be another. That is believed once in a while: whoever refuses each with
        another reason must not have us ask for them without a pause.
        """
        slot = self._slot(whose)
        if slot.token is None or slot.token != token:
            return True  # it has been replaced already, or there was none
        now = anyio.current_time()
        if now - slot.issued_at < PAUSE_S:
            if not at_once or now - slot.hurried_at < PAUSE_S:
                return False
            slot.hurried_at = now
        slot.token = None
        return True

    def _keep(self, slot: _Slot, issued: Issued) -> str:
        margin_s = min(MARGIN_S, issued.lifetime_s * _MARGIN_SHARE)
        slot.token, slot.issued_at = issued.token, anyio.current_time()
        slot.good_until = slot.issued_at + issued.lifetime_s - margin_s
        return issued.token

    def _slot(self, whose: bytes) -> _Slot:
        slot = self._slots.get(whose)
        if slot is None:
            slot = self._slots[whose] = _Slot()
            if len(self._slots) > KEPT_MAX:
                self._slots.popitem(last=False)
        else:
            self._slots.move_to_end(whose)
        return slot
