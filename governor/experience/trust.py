"""Where a write is put: its lane and its standing, by who wrote it and which way it came.

Nothing that is asked for can raise a lane. A way in has the best lane that it can lead to; what
the session has seen and what a write is made of can only lower it. Two ways lead to a lane that
instructs: an administrator's and the user's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from governor.experience.kinds import (
    LANES_BY_TRUST,
    ExperienceKind,
    Standing,
    TrustLane,
    least_trusted,
)
from governor.ids import PrincipalId


class Way(StrEnum):
    """How a write came in.

    OPERATOR: with an administrator's token, in its own words. ADOPTED: an administrator has read
    an experience and makes it an instruction. USER: the user's own words, by a trusted way.
    AGENT: with an agent's token, through a tool or over HTTP, texts of feedback included.
    RESULT: what a tool answered, as the house recorded it. HOUSE: made by the house out of other
    experiences: summaries, cases, bullets of playbooks, reports. RESTORED: read by an
    administrator from a file. IMPORTED: read by an agent from a file.
    """

    OPERATOR = "operator"
    ADOPTED = "adopted"
    USER = "user"
    AGENT = "agent"
    RESULT = "result"
    HOUSE = "house"
    RESTORED = "restored"
    IMPORTED = "imported"


class Doubt(StrEnum):
    """Why a write waits in quarantine.

    CLAIMS: it says of itself that it may instruct. TEACHES: what to do, from where anybody may
    have written. REPLACES: what somebody else wrote, or what is trusted more.
    """

    CLAIMS = "claims"
    TEACHES = "teaches"
    REPLACES = "replaces"


DOUBTS_TOLD: Final[Mapping[Doubt, str]] = MappingProxyType(
    {
        Doubt.CLAIMS: "it says of itself that it may instruct, and this house did not sign it",
        Doubt.TEACHES: "it teaches what to do, from where anybody may have written it",
        Doubt.REPLACES: "it corrects what somebody else wrote, or what is trusted more",
    }
)


def doubts_of(lane: TrustLane, kind: ExperienceKind, *, corrects: bool) -> tuple[Doubt, ...]:
    """Return why an experience waits that was put into quarantine when it was written."""
    doubts = []
    if lane is TrustLane.WEB and kind in _TEACHING:
        doubts.append(Doubt.TEACHES)
    if corrects:
        doubts.append(Doubt.REPLACES)
    return tuple(doubts) or (Doubt.CLAIMS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What a write would take the place of."""

    lane: TrustLane
    writer: PrincipalId


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is known of a write by the house, and never by the word of whoever writes.

    `saw_untrusted` is whether its session has seen what others may have written, or the tool
    that answered shows such. `sources` are the lanes of what it is derived from, None for one
    that its writer may not read or that is not there. `claimed` is the lane that a file says,
    `is_signed` whether this house has signed exactly that, and `stood` where it stood then:
    what was withdrawn does not come back by being read in again. `vouched` is the lane up to
    which an administrator vouches for a file that this house has not signed; nobody vouches for
    what instructs.
    """

    way: Way
    writer: PrincipalId
    kind: ExperienceKind
    saw_untrusted: bool
    sources: tuple[TrustLane | None, ...] = ()
    corrects: Corrected | None = None
    claimed: TrustLane | None = None
    is_signed: bool = False
    stood: Standing = Standing.ACTIVE
    vouched: TrustLane | None = None

    def __post_init__(self) -> None:
        """Refuse what nobody may vouch for by a file."""
        assert self.vouched is None or not self.vouched.instructs, "a file instructs nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a write is put.

    `supersedes` is whether it takes the place of what it corrects at once; in quarantine it does
    so when an administrator promotes it.
    """

    lane: TrustLane
    standing: Standing
    supersedes: bool
    doubts: tuple[Doubt, ...] = ()


_AT_BEST: Final[Mapping[Way, TrustLane]] = MappingProxyType(
    {
        Way.OPERATOR: TrustLane.OPERATOR,
        Way.ADOPTED: TrustLane.OPERATOR,
        Way.USER: TrustLane.USER,
        Way.AGENT: TrustLane.AGENT,
        Way.RESULT: TrustLane.TOOL,
        Way.HOUSE: TrustLane.AGENT,
        Way.RESTORED: TrustLane.WEB,
        Way.IMPORTED: TrustLane.AGENT,
    }
)
# Whose words do not become others' because the session has read those.
_SPEAKING_FOR_THEMSELVES: Final = frozenset({Way.OPERATOR, Way.ADOPTED, Way.USER, Way.RESTORED})
_SHOWN_UNASKED: Final = tuple(lane for lane in TrustLane if lane is not TrustLane.WEB)
_TEACHING: Final = frozenset({ExperienceKind.LESSON})


def decide(attempt: Attempt) -> Placed:
    """Return the lane and the standing of a write."""
    lane = _lane(attempt)
    replaces = attempt.corrects is not None and _may_replace(attempt, attempt.corrects, lane)
    doubts = tuple(_doubts(attempt, lane, replaces=replaces))
    standing = attempt.stood
    if doubts and standing is Standing.ACTIVE:
        standing = Standing.QUARANTINED
    return Placed(
        lane=lane,
        standing=standing,
        supersedes=replaces and standing is Standing.ACTIVE,
        doubts=doubts,
    )


def lanes_for(asked: tuple[TrustLane, ...], *, saw_untrusted: bool) -> tuple[TrustLane, ...]:
    """Return the lanes that a session is shown that asks for these, or for none in particular.

    What anybody may have written is shown to whoever asks for it. A session that has seen such
    already loses nothing by more, and finds again what it wrote itself.
    """
    if asked:
        return asked
    return LANES_BY_TRUST if saw_untrusted else _SHOWN_UNASKED


def is_as_trusted(lane: TrustLane, other: TrustLane) -> bool:
    """Tell whether what stands in `lane` is trusted no less than what stands in `other`."""
    return LANES_BY_TRUST.index(lane) <= LANES_BY_TRUST.index(other)


def lanes_as_trusted_as(lane: TrustLane) -> tuple[TrustLane, ...]:
    """Return the lanes that are trusted no less than one, itself among them."""
    return tuple(other for other in LANES_BY_TRUST if is_as_trusted(other, lane))


def _lane(attempt: Attempt) -> TrustLane:
    if attempt.way is Way.ADOPTED:
        # The one exception to the rule that what is derived is trusted as its worst source.
        return _AT_BEST[attempt.way]
    if attempt.way is Way.RESTORED and attempt.is_signed and attempt.claimed is not None:
        # The signature covers the lane that it got when it was first written, out of its sources.
        return attempt.claimed
    lanes = [_AT_BEST[attempt.way]]
    if attempt.way is Way.RESTORED and attempt.vouched is not None:
        # Never above what the file says: the house that it comes from knew the sources.
        lanes = [attempt.vouched, attempt.claimed or TrustLane.WEB]
    lanes += [TrustLane.WEB if lane is None else lane for lane in attempt.sources]
    if attempt.way is Way.IMPORTED and attempt.claimed is not None:
        lanes.append(attempt.claimed)
    if attempt.saw_untrusted and attempt.way not in _SPEAKING_FOR_THEMSELVES:
        lanes.append(TrustLane.WEB)
    return least_trusted(tuple(lanes))


def _may_replace(attempt: Attempt, corrected: Corrected, lane: TrustLane) -> bool:
    """Tell whether a correction counts at once: of one's own, and of nothing trusted more."""
    if lane is TrustLane.OPERATOR:
        return True
    return attempt.writer == corrected.writer and is_as_trusted(lane, corrected.lane)


def _doubts(attempt: Attempt, lane: TrustLane, *, replaces: bool) -> list[Doubt]:
    doubts = []
    if attempt.claimed is not None and attempt.claimed.instructs and not lane.instructs:
        doubts.append(Doubt.CLAIMS)
    if lane is TrustLane.WEB and attempt.kind in _TEACHING:
        doubts.append(Doubt.TEACHES)
    if attempt.corrects is not None and not replaces:
        doubts.append(Doubt.REPLACES)
    return doubts
