"""Which past cases are read again, by what reading them was worth (after Memento).

Likeness says that a case is about the same thing, not that it helps. What helps is learned from
the outcomes of whoever read a case: a case is worth what its readers did better than was expected
of their class of task without it. A linear model knows that of a case's traits, so that it can say
something of one that nobody has read; beside it every case keeps what its own readers made of it,
drawn to nothing while they are few. What was learned long ago counts less.

Everything that a lesson needs is kept with the choice, so lessons may come in any order, late, and
can be taken back exactly when the outcome turns out to be another.
"""

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import log1p, sqrt

import numpy as np

from governor.ids import ExperienceId
from governor.learning.bandit import ArmSums, Bandit, BanditTerms, Lesson, Vector

CANDIDATES_MAX = 64
CHOSEN_MAX = 16
# The latest readers of a case; what lies further back says little of what it is worth now.
READERS_MAX = 64
_ARM = "case"
_AXES = 10
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_WON = 0.5
_TINY = 1e-12
_HASH_BYTES = 4
_SKETCH_WORDS_MAX = 64
_SKETCHES_READ = 8_192


class CaseSign(StrEnum):
    """What came of a case: how to do it, how not to, or nobody knows."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    OPEN = "open"


def sign_of(outcome: float | None) -> CaseSign:
    """Return what a case is an example of."""
    if outcome is None:
        return CaseSign.OPEN
    return CaseSign.POSITIVE if outcome >= _WON else CaseSign.NEGATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTerms:
    """How case values are learned and explored.

    Readers count by how alike their task is, squared, at the least by `unlike_share`, and those of
    another class by `elsewhere_share`. `own_prior` is by how many readers a case's own record is
    drawn to nothing; `scatter` how far a single outcome scatters. `daring` is the share of the
    spread that choices are drawn with: several are read at a time, and all are learned of.
    `explore` is the chance of a choice by lot alone. Evidence halves in `half_life_hours`. A case
    that is surely worse than none, by `surely` spreads, is left out. For one of the other sign so
    much `contrast` is given up.
    """

    ridge: float = 100.0
    scatter: float = 0.5
    own_prior: float = 1.5
    elsewhere_share: float = 0.3
    unlike_share: float = 0.1
    daring: float = 0.1
    explore: float = 0.03
    half_life_hours: float = 24.0 * 30
    surely: float = 2.0
    contrast: float = 0.05

    @property
    def bandit(self) -> BanditTerms:
        """Return how the linear model learns."""
        keep = float(0.5 ** (1.0 / self.half_life_hours))
        return BanditTerms(dimensions=_AXES, ridge=self.ridge, scatter=self.scatter, keep=keep)


USUAL_CASES = CaseTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReader:
    """What became of one reader of a case, as far as it is known.

    `excess` is by how much it did better than was expected of any case with such traits, `weight`
    by how much of a reader it counts; `likeness` is that of its task to the one asked about.
    """

    excess: float
    weight: float
    read_at_ms: int
    is_same_class: bool
    likeness: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCredit:
    """What the readers of a case did better than expected, in sum, and by how many of them.

    Readers whose task was like the one that is asked about count the most.
    """

    excess: float = 0.0
    weight: float = 0.0


NO_CREDIT = CaseCredit()


def credit_of(
    readers: Iterable[PastReader], *, now_ms: int, terms: CaseTerms = USUAL_CASES
) -> CaseCredit:
    """Return what the readers of a case say of it for a task, what lies back counting less."""
    excess = weight = 0.0
    for one in readers:
        hours = max(now_ms - one.read_at_ms, 0) / _HOUR_MS
        alike = min(max(one.likeness, 0.0), 1.0)
        counts = one.weight * 0.5 ** (hours / terms.half_life_hours)
        counts *= max(alike * alike, terms.unlike_share)
        counts *= 1.0 if one.is_same_class else terms.elsewhere_share
        excess += counts * one.excess
        weight += counts
    return CaseCredit(excess=excess, weight=weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A case that a search found: how alike it is (0 to 1), what came of it, and who read it.

    `relative` is its likeness over that of the most alike that was found: what a likeness means
    differs from one way of searching to the next. `credit` is what its readers made of it.
    """

    case: ExperienceId
    likeness: float
    relative: float
    outcome: float | None
    age_ms: int
    is_same_class: bool
    credit: CaseCredit = NO_CREDIT

    @property
    def sign(self) -> CaseSign:
        """Return what it is an example of."""
        return sign_of(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """A candidate with what reading it is expected to add to the chance of success.

    `linear` is by its traits, `own` by its own readers; `linear_spread` and `own_spread` are how
    little each of the two is known. `features` are its traits against those of the others found.
    """

    candidate: Candidate
    features: tuple[float, ...]
    linear: float
    own: float
    linear_spread: float
    own_spread: float

    @property
    def gain(self) -> float:
        """Return by how much a reader is expected to do better."""
        return self.linear + self.own

    @property
    def spread(self) -> float:
        """Return how far the gain may be off."""
        return sqrt(self.linear_spread**2 + self.own_spread**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A case that is read, with the chance that it had to be, given those chosen before it.

    `explored` is true where another one was expected to be worth more.
    """

    valued: Valued
    propensity: float
    explored: bool

    @property
    def sign(self) -> CaseSign:
        """Return what it is an example of."""
        return self.valued.candidate.sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cases that are read, in the order of their choice, and why others are not.

    `harmful` counts those that are surely worse than none, `left_out` those that did not fit.
    """

    chosen: tuple[Chosen, ...]
    harmful: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCase:
    """What was known of a case when it was read; all that its lesson needs.

    `base` is what was expected of the reader's task without it, `share` the part of the outcome
    that is this case's: of several that were read each has its part.
    """

    features: tuple[float, ...]
    base: float
    linear: float
    own: float
    share: float
    read_at_ms: int

    def excess(self, outcome: float) -> float:
        """Return by how much its reader did better than a case with such traits promised."""
        return outcome - self.base - self.linear


class CaseValues:
    """Knows what reading cases is worth; knows nothing of clocks, dice or disks."""

    def __init__(
        self, terms: CaseTerms = USUAL_CASES, arms: Mapping[str, ArmSums] | None = None
    ) -> None:
        """Begin with what was learned before, if anything was."""
        self.terms = terms
        self._bandit = Bandit(terms.bandit, arms)

    @property
    def arms(self) -> Mapping[str, ArmSums]:
        """Return what was learned, to be kept and begun with again."""
        return self._bandit.arms

    @property
    def evidence(self) -> float:
        """Return by how many readers the values are known."""
        return self._bandit.evidence(_ARM)

    def valued(self, candidates: Sequence[Candidate]) -> tuple[Valued, ...]:
        """Return what each candidate is expected to add, in the order that was given."""
        if not candidates:
            return ()
        rows = features_of(candidates)
        believed = self._bandit.believed(_ARM)
        means = rows @ believed.mean
        spreads = np.sqrt(np.einsum("ij,jk,ik->i", rows, believed.covariance, rows))
        found: list[Valued] = []
        for place, candidate in enumerate(candidates):
            known = candidate.credit.weight + self.terms.own_prior
            found.append(
                Valued(
                    candidate=candidate,
                    features=tuple(rows[place].tolist()),
                    linear=first_guess(rows[place].tolist()) + float(means[place]),
                    own=candidate.credit.excess / known,
                    linear_spread=float(spreads[place]),
                    own_spread=self.terms.scatter / sqrt(known),
                )
            )
        return tuple(found)

    def drawn(self, valued: Sequence[Valued], normals: Vector) -> Vector:
        """Return gains drawn from what is believed: a row for each drawing.

        All cases share one draw of the slopes, for what is not known of a trait is not known of
        every case that has it. `normals` has `columns_of` as many columns as there are cases.
        """
        rows = np.array([one.features for one in valued])
        root = np.linalg.cholesky(self._bandit.believed(_ARM).covariance + _TINY * np.eye(_AXES))
        shared = normals[:, :_AXES] @ (rows @ root).T
        own = np.array([one.own_spread for one in valued]) * normals[:, _AXES:]
        gains = np.array([one.gain for one in valued])
        drawn: Vector = gains + self.terms.daring * (shared + own)
        return drawn

    def learn(self, read: ReadCase, outcome: float, *, weight: float = 1.0) -> None:
        """Learn what came of a reader; a negative weight takes the same outcome back."""
        self._bandit.learn(
            Lesson(
                arm=_ARM,
                context=np.array(read.features),
                reward=outcome - read.base - first_guess(read.features) - read.own,
                weight=weight * read.share,
                period=read.read_at_ms // _HOUR_MS,
            )
        )


def task_sketch(words: Iterable[str]) -> bytes:
    """Return what tasks are compared by, of the words of one: nobody can read them in it."""
    hashes = {
        int.from_bytes(hashlib.blake2b(one.encode(), digest_size=_HASH_BYTES).digest(), "big")
        for one in words
    }
    return array("I", sorted(hashes)[:_SKETCH_WORDS_MAX]).tobytes()


def tasks_alike(one: bytes, other: bytes) -> float:
    """Return how many of their words two tasks share, from 0 to 1."""
    mine, theirs = _hashes(one), _hashes(other)
    if not mine or not theirs:
        return 0.0
    return float(len(mine & theirs) / sqrt(len(mine) * len(theirs)))


@lru_cache(maxsize=_SKETCHES_READ)
def _hashes(sketch: bytes) -> frozenset[int]:
    hashes = array("I")
    hashes.frombytes(sketch)
    return frozenset(hashes)


def features_of(candidates: Sequence[Candidate]) -> Vector:
    """Return the traits by which the worth of cases is foretold, a row for each; the first is 1.

    All others are differences to the mean of what was found for the same task. Some tasks go well
    whatever is read, and find cases that are more alike, or younger; that must not be put down to
    the cases.
    """
    rows = np.array([_traits(one) for one in candidates])
    rows[:, 1:] -= rows[:, 1:].mean(axis=0)
    return rows


def _traits(candidate: Candidate) -> tuple[float, ...]:
    likeness = min(max(candidate.likeness, 0.0), 1.0)
    relative = min(max(candidate.relative, 0.0), 1.0)
    won = float(candidate.sign is CaseSign.POSITIVE)
    lost = float(candidate.sign is CaseSign.NEGATIVE)
    return (
        1.0,
        likeness,
        relative,
        relative**4,
        won,
        lost,
        relative * won,
        relative * lost,
        float(candidate.is_same_class),
        log1p(max(candidate.age_ms, 0) / _DAY_MS) / 4.0,
    )


def columns_of(cases: int) -> int:
    """Return how many normal draws one drawing of so many cases takes."""
    return _AXES + cases


def first_guess(features: Sequence[float]) -> float:
    """Return what a case is taken to add before anything was learned: it is like, it went well."""
    _, likeness, relative, _, won, _, _, _, _, _ = features
    return 0.1 * likeness + 0.2 * relative + 0.05 * won


def chosen_from(
    valued: Sequence[Valued],
    drawn: Vector,
    *,
    most: int,
    dice: Sequence[float],
    terms: CaseTerms = USUAL_CASES,
) -> Choice:
    """Return the cases to read: by Thompson's rule, with one of either sign where that is cheap.

    `drawn` are gains as `CaseValues.drawn` returns them; `dice` are draws from 0 to 1, one for
    each case to choose.
    """
    most = min(most, CHOSEN_MAX, len(dice))
    harmful = [one.gain + terms.surely * one.spread < 0.0 for one in valued]
    left = [place for place, is_bad in enumerate(harmful) if not is_bad]
    gains = np.array([one.gain for one in valued])
    chosen: list[Chosen] = []
    signs: set[CaseSign] = set()
    while left and len(chosen) < most:
        among = left
        if signs and len(chosen) == most - 1:
            among = _contrasting(valued, left, signs, terms=terms) or left
        wins = np.bincount(np.argmax(drawn[:, among], axis=1), minlength=len(among))
        shares = (1.0 - terms.explore) * wins / len(drawn) + terms.explore / len(among)
        at = min(int(np.searchsorted(np.cumsum(shares), dice[len(chosen)])), len(among) - 1)
        place = among[at]
        chosen.append(
            Chosen(
                valued=valued[place],
                propensity=float(shares[at]),
                explored=bool(gains[place] < gains[among].max()),
            )
        )
        signs.add(valued[place].candidate.sign)
        left.remove(place)
    return Choice(chosen=tuple(chosen), harmful=sum(harmful), left_out=len(left))


def _contrasting(
    valued: Sequence[Valued], left: Sequence[int], signs: set[CaseSign], *, terms: CaseTerms
) -> list[int]:
    """Return which may come last where all before are of one sign: those of the other.

    What went wrong is told beside what went well, but not at the price of a much better case.
    """
    wanted = {CaseSign.POSITIVE, CaseSign.NEGATIVE} - signs
    if len(wanted) != 1:
        return []
    least = max(valued[place].gain for place in left) - terms.contrast
    return [
        place
        for place in left
        if valued[place].candidate.sign in wanted and valued[place].gain >= least
    ]


def read_case(chosen: Chosen, *, base: float, of: int, now_ms: int) -> ReadCase:
    """Return what is to be kept of a chosen case, one of so many that are read together."""
    valued = chosen.valued
    return ReadCase(
        features=valued.features,
        base=base,
        linear=valued.linear,
        own=valued.own,
        share=1.0 / max(of, 1),
        read_at_ms=now_ms,
    )


def expected_outcome(base: float, chosen: Sequence[Chosen]) -> float:
    """Return the chance of success that is forecast for a reader of these cases."""
    gain = sum(one.valued.gain for one in chosen) / max(len(chosen), 1)
    return min(max(base + gain, 0.0), 1.0)


def _left(elapsed_ms: int, terms: CaseTerms) -> float:
    return float(0.5 ** (max(elapsed_ms, 0) / _HOUR_MS / terms.half_life_hours))
