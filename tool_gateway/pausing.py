"""The sessions that were paused in this process, where nothing durable freezes them."""

from collections import OrderedDict

from governor.ids import SessionId
from governor.scope import ScopeChain

SESSIONS_MAX = 10_000


class PausedSessions:
    """Sessions whose calls are denied until somebody resumes them."""

    def __init__(self) -> None:
        """Start with none."""
        self._why: OrderedDict[SessionId, str] = OrderedDict()

    async def pause(self, chain: ScopeChain, *, why: str) -> None:
        """Let no further call of the session start."""
        self._why[chain.session] = why
        if len(self._why) > SESSIONS_MAX:
            self._why.popitem(last=False)

    def resume(self, session: SessionId) -> bool:
        """Let the session's calls start again; False if it was not paused."""
        return self._why.pop(session, None) is not None

    def why_paused(self, session: SessionId) -> str | None:
        """Return why the session was paused, None if it was not."""
        return self._why.get(session)
