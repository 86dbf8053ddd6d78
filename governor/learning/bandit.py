"""A linear bandit: what each arm earns above what was expected of it, and how sure that is.

For every arm it keeps the two sums that ridge regression needs, S = sum(w x x') and
b = sum(w r x), and answers with theta = (ridge I + S)^-1 (b + prior) and the spread of what it
expects. Rewards are differences to what was predicted anyway, so that an arm without evidence is
expected to be as predicted: a bandit that starts from zero and is told positive rewards never
leaves its first arm.

What lies back counts less: sums are in *periods*, whole numbers that the caller derives from time,
and each period multiplies what was learned before it by `keep`. What is learned late is weighed by
its own period, so the order in which feedback arrives changes nothing, and what was learned of a
call can be taken back exactly by learning it again with the opposite weight.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
ARMS_MAX = 64
DIMENSIONS_MAX = 256
# Below that, taking back what was learned is no longer a sum of what is left: invert anew.
_STEP_MIN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditTerms:
    """How a bandit learns.

    `ridge` is how much evidence the expectation of no difference counts for. `scatter` is how far
    a single reward scatters. `keep` is what a period leaves of the evidence before it. `optimism`
    is what an arm without evidence is expected to earn on top; the first axis of every context
    must be constant for it.
    """

    dimensions: int
    ridge: float = 1.0
    scatter: float = 0.5
    keep: float = 1.0
    optimism: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no bandit can learn by."""
        assert 0 < self.dimensions <= DIMENSIONS_MAX, "a context has 1 to 256 axes"
        assert self.ridge > 0, "without a prior there is no inverse"
        assert self.scatter > 0, "a spread is above zero"
        assert 0 < self.keep <= 1, "a period leaves some of what was learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one call taught of an arm; a negative `weight` takes a lesson back."""

    arm: str
    context: Vector
    reward: float
    weight: float
    period: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSums:
    """What is kept of an arm, as of a period."""

    seen: Vector
    earned: Vector
    evidence: float
    period: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """What is believed of an arm's slopes: their mean, and how they vary together."""

    mean: Vector
    covariance: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What arms are expected to earn in a context, in the order that was asked for."""

    mean: Vector
    spread: Vector


class Bandit:
    """Learns what arms earn; knows nothing of clocks, dice or disks."""

    def __init__(self, terms: BanditTerms, arms: Mapping[str, ArmSums] | None = None) -> None:
        """Begin with what was learned before, if anything was."""
        self.terms = terms
        self._names: dict[str, int] = {}
        size = terms.dimensions
        self._seen = np.zeros((0, size, size))
        self._earned = np.zeros((0, size))
        self._inverse = np.zeros((0, size, size))
        self._theta = np.zeros((0, size))
        self._evidence: list[float] = []
        self._periods: list[int] = []
        self._prior = np.zeros(size)
        self._prior[0] = terms.ridge * terms.optimism
        for name, sums in (arms or {}).items():
            at = self._place(name)
            self._seen[at], self._earned[at] = sums.seen, sums.earned
            self._evidence[at], self._periods[at] = sums.evidence, sums.period
            self._invert(at)

    @property
    def arms(self) -> Mapping[str, ArmSums]:
        """Return what is known of each arm, to be kept and begun with again."""
        return {
            name: ArmSums(
                seen=self._seen[at].copy(),
                earned=self._earned[at].copy(),
                evidence=self._evidence[at],
                period=self._periods[at],
            )
            for name, at in self._names.items()
        }

    def evidence(self, arm: str) -> float:
        """Return by how many calls an arm is known, what lies back counting less."""
        at = self._names.get(arm)
        return 0.0 if at is None else self._evidence[at]

    def learn(self, lesson: Lesson) -> None:
        """Take a lesson, or take one back."""
        at = self._place(lesson.arm)
        weight = lesson.weight
        if lesson.period > self._periods[at]:
            self._age(at, self.terms.keep ** (lesson.period - self._periods[at]))
            self._periods[at] = lesson.period
        else:
            weight *= self.terms.keep ** (self._periods[at] - lesson.period)
        context = lesson.context
        self._seen[at] += weight * np.outer(context, context)
        self._earned[at] += (weight * lesson.reward) * context
        self._evidence[at] = max(0.0, self._evidence[at] + weight)
        turned = self._inverse[at] @ context
        step = 1.0 + weight * float(context @ turned)
        if step < _STEP_MIN:
            self._invert(at)
            return
        self._inverse[at] -= (weight / step) * np.outer(turned, turned)
        self._theta[at] = self._inverse[at] @ (self._earned[at] + self._prior)

    def forget(self, arm: str, *, keep: float) -> None:
        """Leave only a part of what was learned of an arm, as when it is no longer true."""
        at = self._names.get(arm)
        if at is not None:
            self._age(at, keep)

    def expected(self, context: Vector, arms: Sequence[str]) -> Expected:
        """Return what `arms` are expected to earn; one that is not known is as the prior says.

        To be asked of an arm makes it no better known, and takes no place.
        """
        mean = np.full(len(arms), float(self._prior @ context) / self.terms.ridge)
        squares = np.full(len(arms), float(context @ context) / self.terms.ridge)
        known = [place for place, arm in enumerate(arms) if arm in self._names]
        at = [self._names[arms[place]] for place in known]
        if known:
            mean[known] = self._theta[at] @ context
            squares[known] = (self._inverse[at] @ context) @ context
        spread = self.terms.scatter * np.sqrt(np.maximum(squares, 0.0))
        return Expected(mean=mean, spread=spread)

    def expected_in(self, contexts: Vector, arm: str) -> Expected:
        """Return what one arm is expected to earn in each of several contexts, the rows."""
        at = self._names.get(arm)
        if at is None:
            mean = contexts @ self._prior / self.terms.ridge
            squares = (contexts * contexts).sum(axis=1) / self.terms.ridge
        else:
            mean = contexts @ self._theta[at]
            squares = ((contexts @ self._inverse[at]) * contexts).sum(axis=1)
        spread = self.terms.scatter * np.sqrt(np.maximum(squares, 0.0))
        return Expected(mean=mean, spread=spread)

    def believed(self, arm: str) -> Believed:
        """Return what is believed of an arm, for contexts that are judged together."""
        at = self._names.get(arm)
        square = self.terms.scatter**2
        if at is None:
            whole = np.eye(self.terms.dimensions) / self.terms.ridge
            return Believed(mean=self._prior / self.terms.ridge, covariance=square * whole)
        return Believed(mean=self._theta[at].copy(), covariance=square * self._inverse[at])

    def _place(self, arm: str) -> int:
        """Return where an arm is kept; it begins with nothing known.

        Of as many as there can be, the one that was last heard of longest ago gives way: it goes
        by a name that no tier has any more.
        """
        found = self._names.get(arm)
        if found is not None:
            return found
        if len(self._names) >= ARMS_MAX:
            return self._replaced(arm)
        size = self.terms.dimensions
        self._names[arm] = len(self._names)
        inverse = np.eye(size) / self.terms.ridge
        self._seen = np.concatenate([self._seen, np.zeros((1, size, size))])
        self._earned = np.concatenate([self._earned, np.zeros((1, size))])
        self._inverse = np.concatenate([self._inverse, inverse[None]])
        self._theta = np.concatenate([self._theta, (inverse @ self._prior)[None]])
        self._evidence.append(0.0)
        self._periods.append(0)
        return self._names[arm]

    def _replaced(self, arm: str) -> int:
        def standing(name: str) -> tuple[int, float]:
            return self._periods[self._names[name]], self._evidence[self._names[name]]

        at = self._names.pop(min(self._names, key=standing))
        self._names[arm] = at
        self._seen[at], self._earned[at] = 0.0, 0.0
        self._evidence[at], self._periods[at] = 0.0, 0
        self._invert(at)
        return at

    def _age(self, at: int, keep: float) -> None:
        if keep < 1.0:
            self._seen[at] *= keep
            self._earned[at] *= keep
            self._evidence[at] *= keep
            self._invert(at)

    def _invert(self, at: int) -> None:
        whole = self._seen[at] + self.terms.ridge * np.eye(self.terms.dimensions)
        self._inverse[at] = np.linalg.inv(whole)
        self._theta[at] = self._inverse[at] @ (self._earned[at] + self._prior)


def learned(bandit: Bandit, lessons: Iterable[Lesson]) -> Bandit:
    """Return a bandit that took the lessons as well; the one that is given stays as it is."""
    after = Bandit(bandit.terms, bandit.arms)
    for lesson in lessons:
        after.learn(lesson)
    return after


def linucb(values: Vector, spread: Vector, *, confidence: float) -> int:
    """Return the arm that may be the best: the highest of value and so many spreads."""
    return int(np.argmax(values + confidence * spread))


def thompson_shares(values: Vector, spread: Vector, normals: Vector) -> Vector:
    """Return how often each arm wins when its value is drawn from what is believed of it.

    `normals` are standard normal draws, a row for each drawing and a column for each arm. Drawing
    an arm from these shares is Thompson sampling, with propensities that are known exactly.
    """
    drawn = values + spread * normals
    wins = np.bincount(np.argmax(drawn, axis=1), minlength=len(values))
    return wins / len(normals)
