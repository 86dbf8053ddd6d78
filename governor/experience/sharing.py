"""What enters the bank that a team shares, learned from what became of what entered before.

After "Learning to Share": a controller decides for each experience that an agent of a team makes
whether the others shall find it. It is taught by usage: somebody else read it and succeeded, or
it was in everybody's way, or it was left out and another agent did the same work again. What does
not enter is not lost: it stays with its writer. What is there already is linked, never dropped.

Deterministic given its state: the dice are a hash of the state's salt and of what is decided on,
so that a decision can be made again and looks at nothing that the log does not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from math import log1p

import numpy as np

from governor.experience.kinds import LANES_BY_TRUST, ExperienceKind, TrustLane
from governor.ids import ExperienceId, PrincipalId
from governor.learning.averages import Average
from governor.learning.bandit import Bandit, BanditTerms, Lesson, Vector
from governor.learning.choice import (
    ChoiceTerms,
    Exploration,
    Objective,
    Option,
    drawn,
    preferred,
    propensities,
    share_left,
)

ENTER, STAY = "enter", "stay"
WRITERS_MAX = 1_024
_KINDS = tuple(ExperienceKind)
_NUMBERS = 9
AXES = _NUMBERS + len(_KINDS) + len(LANES_BY_TRUST)
_TOKENS_USUAL = 2_000.0
_COST_USUAL = 10_000.0
_BANK_USUAL = 10_000.0
_WRITER_BELIEF = 0.5
_WRITER_COUNTS = 4.0
# What is said of a writer long ago counts less: half after seventy of its experiences.
_WRITER_KEPT = 0.99
# What it counts to be shown in vain, where a reading that misled counts one.
_VAIN = 0.02
# What was expected of an experience counts for so many readings of it.
_EXPECTED_COUNTS = 2.0
_DICE_BITS, _FLOAT_BITS = 64, 53


class Entry(StrEnum):
    """What becomes of an experience that is offered to a bank."""

    ENTERS = "enters"
    STAYS = "stays"
    """It stays with its writer, who alone finds it."""
    LINKED = "linked"
    """The same is in the bank; the two are linked, and the bank's is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An experience that may enter a bank.

    `novelty` is 1 where nothing like it is in the bank and 0 where the same words are. `same_as`
    is what the bank holds of exactly this content. `cost_microusd` is what it took to find out,
    `outcome` what came of it, both None where nobody knows. `bank_items` are already there;
    `asked` tells that its writer asked to share it.
    """

    experience: ExperienceId
    writer: PrincipalId
    kind: ExperienceKind
    lane: TrustLane
    novelty: float
    tokens: int
    cost_microusd: int | None = None
    outcome: float | None = None
    bank_items: int = 0
    asked: bool = False
    same_as: ExperienceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingTerms:
    """What counts in a decision.

    `worth_min` is what an experience must be expected to be worth to take a place, in units of
    one reading that helped; what is worth less than `leaves_below` leaves again. `explored` is
    the share of decisions that is tried out. `token_cost` is what a thousand tokens that others
    read of it count.
    """

    worth_min: float = 0.15
    leaves_below: float = 0.1
    explored: float = 0.08
    token_cost: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCredit:
    """What became of an experience after the decision.

    `helped` and `failed` are readings by others whose sessions went well and did not; `unread` is
    how often it was shown to others who made nothing of it; `redone` is how often another agent
    did the same work again because it was not there.
    """

    helped: int = 0
    failed: int = 0
    unread: int = 0
    redone: int = 0

    @property
    def is_any(self) -> bool:
        """Tell whether anything at all became of it."""
        return bool(self.helped or self.failed or self.unread or self.redone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The state of a controller: what it learned, and how far each writer's are of use.

    `salt` is drawn once when a bank is made, and is in the dice.
    """

    bandit: Bandit
    salt: str
    writers: Mapping[PrincipalId, Average] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What was decided on an offer, how probable that was, and what it went by."""

    entry: Entry
    propensity: float
    explored: bool
    expected: float
    context: Vector
    dice: float

    @property
    def arm(self) -> str:
        """Return the name that the log knows the choice by."""
        return ENTER if self.entry is Entry.ENTERS else STAY


def nothing_known(salt: str, *, keep: float = 1.0) -> Sharing:
    """Return the controller of a bank that nothing was learned of.

    It begins by letting things in: an empty bank teaches nothing.
    """
    terms = BanditTerms(dimensions=AXES, ridge=3.0, scatter=0.5, keep=keep, optimism=0.3)
    return Sharing(bandit=Bandit(terms), salt=salt)


def decided(offer: Offer, state: Sharing, terms: SharingTerms) -> Admission:
    """Return whether an experience enters a bank; the same for the same state and offer."""
    context = context_of(offer, state)
    known = state.bandit.expected(context, [ENTER])
    expected = float(known.mean[0])
    dice = dice_of(offer.experience, state)
    if offer.same_as is not None:
        return Admission(
            entry=Entry.LINKED,
            propensity=1.0,
            explored=False,
            expected=expected,
            context=context,
            dice=dice,
        )
    price = terms.worth_min + terms.token_cost * offer.tokens / 1_000
    options = (
        _option(ENTER, expected, float(known.spread[0])),
        _option(STAY, price, 0.0),
    )
    best = preferred(options, ChoiceTerms(objective=Objective.VALUE, price=0.0, target=0.0))
    share = share_left(terms.explored, [state.bandit.evidence(ENTER)])
    chances = propensities(
        options, best, Exploration(share=share, left_microusd=None), np.zeros((0, 2))
    )
    at = drawn(chances, dice)
    return Admission(
        entry=Entry.ENTERS if at == 0 else Entry.STAYS,
        propensity=float(chances[at]),
        explored=at != best,
        expected=expected,
        context=context,
        dice=dice,
    )


def context_of(offer: Offer, state: Sharing) -> Vector:
    """Return an offer as numbers; the first is constant."""
    record = record_of(offer.writer, state)
    outcome = 0.0 if offer.outcome is None else offer.outcome - 0.5
    cost = 0.0 if offer.cost_microusd is None else log1p(offer.cost_microusd) / log1p(_COST_USUAL)
    numbers = (
        1.0,
        offer.novelty,
        min(log1p(offer.tokens) / log1p(_TOKENS_USUAL), 2.0),
        min(cost, 2.0),
        outcome,
        float(offer.outcome is not None),
        record - _WRITER_BELIEF,
        min(log1p(offer.bank_items) / log1p(_BANK_USUAL), 2.0),
        float(offer.asked),
    )
    kinds = [float(offer.kind is kind) for kind in _KINDS]
    lanes = [float(offer.lane is lane) for lane in LANES_BY_TRUST]
    return np.array([*numbers, *kinds, *lanes])


def worth_of(credit: EntryCredit) -> float:
    """Return what an experience was worth to the others, from -1 to 1.

    One reading that helped is nearly all there is to gain. One that misled costs as much; to have
    been in the way costs little each time. Work done again is what it would have saved.
    """
    good = credit.helped + credit.redone
    bad = credit.failed + _VAIN * credit.unread
    return float(np.tanh(1.5 * good) - np.tanh(1.5 * bad)) if credit.is_any else 0.0


def worth_now(expected: float, credit: EntryCredit) -> float:
    """Return what something in a bank is worth, by what was expected and by what became of it.

    What was expected counts as much as a few readings; being shown in vain counts little.
    """
    readings = credit.helped + credit.failed
    vain = _VAIN * credit.unread
    earned = credit.helped - credit.failed - vain
    return (_EXPECTED_COUNTS * expected + earned) / (_EXPECTED_COUNTS + readings + vain)


def is_withdrawn(expected: float, credit: EntryCredit, terms: SharingTerms) -> bool:
    """Tell whether something leaves a bank again: it stays with its writer, and is not erased."""
    return worth_now(expected, credit) < terms.leaves_below


def record_of(writer: PrincipalId, state: Sharing) -> float:
    """Return how far what a writer shared was of use, from 0 to 1; 0.5 is what nobody knows."""
    known = state.writers.get(writer, Average())
    total = known.weight + _WRITER_COUNTS
    return (known.mean * known.weight + _WRITER_BELIEF * _WRITER_COUNTS) / total


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOutcome:
    """What is learned of one decision: its context, whose it was, what became of it, when."""

    context: Vector
    writer: PrincipalId
    entered: bool
    credit: EntryCredit
    period: int = 0
    before: EntryCredit | None = None


def taught(state: Sharing, usages: tuple[EntryOutcome, ...]) -> Sharing:
    """Return the controller after these; what was learned of the same decision is taken back.

    What stayed with its writer teaches only where somebody did the work again: of the rest nobody
    knows what it would have been worth, and silence is not taken for an answer.
    """
    bandit = Bandit(state.bandit.terms, state.bandit.arms)
    writers: dict[PrincipalId, Average] = dict(state.writers)
    for usage in usages:
        if usage.before is not None:
            _learn(bandit, writers, usage, usage.before, weight=-1.0)
        _learn(bandit, writers, usage, usage.credit, weight=1.0)
    return replace(state, bandit=bandit, writers=writers)


def dice_of(experience: ExperienceId, state: Sharing) -> float:
    """Return a number from 0 to below 1 that the state and what is decided on determine."""
    words = f"{state.salt}\0{experience}".encode()
    digest = blake2b(words, digest_size=_DICE_BITS // 8).digest()
    # As many bits as a float holds, or the highest would be rounded up to one.
    return (int.from_bytes(digest) >> (_DICE_BITS - _FLOAT_BITS)) / float(1 << _FLOAT_BITS)


def _option(arm: str, quality: float, spread: float) -> Option:
    return Option(tier=arm, quality=quality, spread=spread, cost_microusd=0.0, cost_max_microusd=0)


def _learn(
    bandit: Bandit,
    writers: dict[PrincipalId, Average],
    usage: EntryOutcome,
    credit: EntryCredit,
    *,
    weight: float,
) -> None:
    """Learn what became of a decision, or with a negative weight take that back."""
    if not usage.entered and not credit.redone:
        return
    worth = worth_of(credit)
    lesson = Lesson(
        arm=ENTER, context=usage.context, reward=worth, weight=weight, period=usage.period
    )
    bandit.learn(lesson)
    if not usage.entered:
        return
    kept = _WRITER_KEPT if weight > 0 else 1.0
    known = writers.pop(usage.writer, Average())
    writers[usage.writer] = known.noted((worth + 1.0) / 2.0, kept=kept, counts=weight)
    while len(writers) > WRITERS_MAX:
        writers.pop(next(iter(writers)))
