"""What an experience is of, how far its words are trusted, and where it stands."""

from enum import StrEnum


class ExperienceKind(StrEnum):
    """What an experience is of."""

    OBSERVATION = "observation"
    TOOL_RESULT = "tool_result"
    DECISION = "decision"
    LESSON = "lesson"
    CASE = "case"
    FACT = "fact"


class TrustLane(StrEnum):
    """By whom words came in, which they keep for good: recalling them gives them no authority.

    OPERATOR: an administrator. USER: the user's own words, by a trusted way in. AGENT: what an
    agent noted by itself. TOOL: what a tool answered. WEB: what anybody may have written.
    """

    OPERATOR = "operator"
    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    WEB = "web"

    @property
    def instructs(self) -> bool:
        """Tell whether what stands in this lane may be handed on as an instruction."""
        return self in _INSTRUCTING


_INSTRUCTING = frozenset({TrustLane.OPERATOR, TrustLane.USER})
# From the most trusted to the least: what is derived is trusted as its worst source.
LANES_BY_TRUST = tuple(TrustLane)


class Standing(StrEnum):
    """Whether an experience is found.

    QUARANTINED: kept and read by its index, found by nobody until it is promoted. SUPERSEDED: a
    correction stands in its place. REVOKED: withdrawn, with all that its writer wrote.
    """

    ACTIVE = "active"
    QUARANTINED = "quarantined"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"


def least_trusted(lanes: "tuple[TrustLane, ...]") -> TrustLane:
    """Return the worst of one lane or more, which is what is made of them all stands in."""
    return max(lanes, key=LANES_BY_TRUST.index)
