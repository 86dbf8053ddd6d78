"""What may change where an experience stands: who may promote it, whereto, and who may withdraw it.

A lane is for good, so nothing is promoted into one. What an administrator wants to instruct is
written again, in the administrator's lane, and names what it was made of; withdrawing that
withdraws both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane
from governor.ids import PrincipalId


class Whereto(StrEnum):
    """As what an experience is to be found: quoted as evidence, or as an instruction."""

    EVIDENCE = "evidence"
    INSTRUCTION = "instruction"


class Refusal(StrEnum):
    """Why an experience stays where it is."""

    NOT_AN_OPERATOR = "not_an_operator"
    NO_QUORUM = "no_quorum"
    HARMED = "harmed"
    FOR_AN_OPERATOR = "for_an_operator"
    OVER = "over"
    ALREADY = "already"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks; an operator is known by an administrator's token and by nothing else.

    `saw_untrusted` is whether an agent's session has seen what others may have written.
    """

    principal: PrincipalId
    is_operator: bool = False
    saw_untrusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """How a task went whose agent had read the experience: `outcome` from 0 to 1.

    `saw_untrusted` is whether that session had seen what others may have written.
    """

    reader: PrincipalId
    outcome: float
    saw_untrusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """How many agents other than the writer must have done well with it, and none badly."""

    readers_min: int = 3
    good_min: float = 0.7
    bad_max: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """It stands so from now on; `supersedes` is whether its correction takes effect now."""

    standing: Standing
    supersedes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """It is to be written again in `lane`, derived from itself; where it stands stays."""

    lane: TrustLane


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """Nothing changes, and why."""

    refusal: Refusal


_BY_QUORUM: Final = Quorum()


def promote(
    experience: Experience,
    whereto: Whereto,
    *,
    asker: Asker,
    votes: Iterable[Vote] = (),
    quorum: Quorum = _BY_QUORUM,
) -> Stands | Adopted | Stays:
    """Return what becomes of an experience that somebody wants promoted."""
    if experience.standing in (Standing.REVOKED, Standing.SUPERSEDED):
        return Stays(refusal=Refusal.OVER)
    if whereto is Whereto.INSTRUCTION:
        if not asker.is_operator:
            return Stays(refusal=Refusal.NOT_AN_OPERATOR)
        if not experience.lane.instructs:
            return Adopted(lane=TrustLane.OPERATOR)
    if experience.standing is Standing.ACTIVE:
        return Stays(refusal=Refusal.ALREADY)
    return _out_of_quarantine(experience, asker, votes, quorum)


def withdraw(experience: Experience, standing: Standing, *, asker: Asker) -> Stands | Stays:
    """Return what becomes of an experience that somebody wants in quarantine or revoked.

    What may be withdrawn may be erased.
    """
    if experience.standing in (Standing.REVOKED, standing):
        return Stays(refusal=Refusal.ALREADY)
    if standing not in (Standing.QUARANTINED, Standing.REVOKED):
        return Stays(refusal=Refusal.OVER)
    if asker.is_operator or _is_its_own(experience, asker):
        return Stands(standing=standing)
    return Stays(refusal=Refusal.NOT_AN_OPERATOR)


def _is_its_own(experience: Experience, asker: Asker) -> bool:
    """Tell whether an agent wrote this, in no better lane than its session would write in now."""
    if asker.principal != experience.provenance.writer or experience.lane.instructs:
        return False
    return not asker.saw_untrusted or experience.lane is TrustLane.WEB


def _out_of_quarantine(
    experience: Experience, asker: Asker, votes: Iterable[Vote], quorum: Quorum
) -> Stands | Stays:
    if asker.is_operator:
        return Stands(standing=Standing.ACTIVE, supersedes=experience.supersedes is not None)
    if experience.lane.instructs or experience.supersedes is not None:
        # Readers can tell that it served them, not that it may take another's place.
        return Stays(refusal=Refusal.FOR_AN_OPERATOR)
    return _by_votes(experience, votes, quorum)


def _by_votes(experience: Experience, votes: Iterable[Vote], quorum: Quorum) -> Stands | Stays:
    """Count each reader once, by its worst; what it read before may have told it how to vote."""
    worst: dict[PrincipalId, float] = {}
    for vote in votes:
        if vote.reader == experience.provenance.writer:
            continue
        if vote.saw_untrusted and vote.outcome > quorum.bad_max:
            continue
        worst[vote.reader] = min(vote.outcome, worst.get(vote.reader, 1.0))
    if any(outcome <= quorum.bad_max for outcome in worst.values()):
        return Stays(refusal=Refusal.HARMED)
    if sum(outcome >= quorum.good_min for outcome in worst.values()) < quorum.readers_min:
        return Stays(refusal=Refusal.NO_QUORUM)
    return Stands(standing=Standing.ACTIVE)
