"""Where a session stands, and who ended it."""

from enum import StrEnum


class SessionState(StrEnum):
    """Whether a session's calls may start; of a closed one, who ended it.

    CLOSED is an administrator's doing.
    """

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"
    CLOSED_BY_AGENT = "closed_by_agent"
    CLOSED_AT_REST = "closed_at_rest"

    @property
    def is_closed(self) -> bool:
        """Tell whether the session is over, whoever ended it."""
        return self not in _NOT_OVER


_NOT_OVER = frozenset({SessionState.OPEN, SessionState.FROZEN})
