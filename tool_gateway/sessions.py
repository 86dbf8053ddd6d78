"""The session of a caller that names none: one per token, until it has been idle."""

from collections import OrderedDict

from tool_gateway.ports import Clock

TOKENS_MAX = 10_000
PREFIX = "implicit"


class ImplicitSessions:
    """Remembers, per token, which unnamed session is open in this process."""

    def __init__(self, *, clock: Clock, idle_ms: int) -> None:
        """Start with none; a session that rests for `idle_ms` is not continued."""
        self._clock = clock
        self._idle_ms = idle_ms
        self._open: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._bound: dict[str, str] = {}

    def bind(self, token_id: str, name: str) -> None:
        """Let a token stand for one session, whoever comes with it, until `release`."""
        self._bound[token_id] = name

    def release(self, token_id: str) -> None:
        """Let a token stand for no session of its own any more."""
        self._bound.pop(token_id, None)

    def pin_of(self, token_id: str) -> str | None:
        """Return the name of the only session that a token stands for, None without one."""
        return self._bound.get(token_id)

    def name_for(self, token_id: str) -> str:
        """Return the name of the token's session, a new one after it has been idle."""
        if token_id in self._bound:
            return self._bound[token_id]
        now_ms = self._clock.now_ms()
        name, seen_ms = self._open.get(token_id, ("", 0))
        if not name or now_ms - seen_ms > self._idle_ms:
            name = self._clock.fresh(PREFIX)
            self._keep(token_id, name, now_ms)
        self._open.move_to_end(token_id)
        return name

    def touch(self, token_id: str) -> None:
        """Take note that the token's session did something just now."""
        name, _ = self._open.get(token_id, ("", 0))
        if name:
            self._open[token_id] = (name, self._clock.now_ms())

    def _keep(self, token_id: str, name: str, seen_ms: int) -> None:
        """Remember a session; the token that was met first gives way."""
        self._open[token_id] = (name, seen_ms)
        if len(self._open) > TOKENS_MAX:
            self._open.popitem(last=False)
