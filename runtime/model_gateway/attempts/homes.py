"""Where sessions' prompts are warm, as far as this process has seen."""

from collections import OrderedDict

from governor.ids import SessionId
from governor.providing.affinity import Home

SESSIONS_MAX = 4_096


class SessionHomes:
    """The last place of each session; those that were quiet for longest are forgotten first."""

    __slots__ = ("_homes", "_sessions_max")

    def __init__(self, *, sessions_max: int = SESSIONS_MAX) -> None:
        """Begin with none."""
        self._homes: OrderedDict[SessionId, Home] = OrderedDict()
        self._sessions_max = sessions_max

    def __len__(self) -> int:
        """Return how many sessions are known."""
        return len(self._homes)

    def of(self, session: SessionId) -> Home | None:
        """Return a session's home, None if it has none that is known."""
        return self._homes.get(session)

    def note(self, session: SessionId, home: Home) -> None:
        """Take note of where a session has its home now."""
        self._homes[session] = home
        self._homes.move_to_end(session)
        if len(self._homes) > self._sessions_max:
            self._homes.popitem(last=False)
