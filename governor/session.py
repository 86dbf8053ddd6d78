"""Where a session stands."""

from enum import StrEnum


class SessionState(StrEnum):
    """Whether a session's calls may start."""

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"
