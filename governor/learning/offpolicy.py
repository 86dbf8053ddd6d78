"""What another policy would have earned, estimated from the log of the one that chose.

Each logged decision has the propensity with which its tier was chosen. Weighing what was earned by
the other policy's probability over that propensity makes the sum that of the other policy: right on
average (IPS), steadier when divided by the sum of the weights (SNIPS), and steadier still when a
model of the earnings takes the part that it explains (doubly robust: right if either the
propensities or the model are). Decisions of one session hang together, and so do
the words of one agent, so intervals go by groups.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]
# What one decision counts at the most: above it the estimate errs a little rather than jumps.
WEIGHT_MAX = 50.0
_NORMAL_95 = 1.959964
# Of Student's distribution with one degree of freedom, two, and so on; the first is not used.
_T_95 = (np.inf, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyValue:
    """A value with the interval that holds it nineteen times in twenty.

    `effective` is by how many decisions that a policy made itself it would be known as well.
    `covered` is the share of decisions in which the log could have done what the policy does: of
    the rest nothing is known, and a value that rests on half of them is no value.
    """

    value: float
    low: float
    high: float
    n: int
    effective: float
    covered: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The log as arrays, a row for each decision.

    `rewards` of the chosen tiers, their `propensities`, how probable they are under the policy
    that is asked about (`targets`), what a model expects of the chosen tier (`modelled`) and of
    the policy (`modelled_policy`), the group that each belongs to, and by how much of a decision
    each counts (`counts`; None: all alike).
    """

    rewards: Vector
    propensities: Vector
    targets: Vector
    modelled: Vector
    modelled_policy: Vector
    groups: Groups
    counts: Vector | None = None

    @property
    def shares(self) -> Vector:
        """Return by how much of an average decision each counts."""
        counts = np.ones_like(self.rewards) if self.counts is None else self.counts
        return np.asarray(counts / counts.mean(), dtype=np.float64)

    @property
    def weights(self) -> Vector:
        """Return what each decision counts for the policy that is asked about."""
        return np.minimum(self.targets / self.propensities, WEIGHT_MAX)


def on_policy(logged: Logged) -> LikelyValue:
    """Return what the policy that chose has earned itself."""
    return _estimate(logged.rewards, np.ones_like(logged.rewards), logged)


def ips(logged: Logged) -> LikelyValue:
    """Return the estimate by inverse propensities; unbiased where no weight is cut."""
    weights = logged.weights
    return _estimate(weights * logged.rewards, weights, logged)


def snips(logged: Logged) -> LikelyValue:
    """Return the estimate that is divided by the sum of its weights."""
    weights = logged.weights * logged.shares
    total = float(weights.sum())
    if total <= 0.0:
        return LikelyValue(value=0.0, low=-np.inf, high=np.inf, n=len(weights), effective=0.0)
    value = float(weights @ logged.rewards) / total
    # The delta method: how the ratio moves with each decision.
    influence = weights * (logged.rewards - value) * (len(weights) / total)
    return _around(value, influence, weights, logged.groups)


def doubly_robust(logged: Logged) -> LikelyValue:
    """Return the model's value of the policy, corrected by what the log says of the model."""
    weights = logged.weights
    values = logged.modelled_policy + weights * (logged.rewards - logged.modelled)
    return _estimate(values, weights, logged)


def gain(candidate: Logged, incumbent: Logged) -> LikelyValue:
    """Return by how much a policy earns more than another on the same decisions.

    Taken decision by decision, what both have in common cancels out of the interval.
    """
    one, other = candidate.weights, incumbent.weights
    values = (
        candidate.modelled_policy
        + one * (candidate.rewards - candidate.modelled)
        - incumbent.modelled_policy
        - other * (incumbent.rewards - incumbent.modelled)
    )
    return _estimate(values, one, candidate)


def effective(weights: Vector) -> float:
    """Return how many equally weighed decisions say as much as these."""
    squares = float(weights @ weights)
    return 0.0 if squares <= 0.0 else float(weights.sum()) ** 2 / squares


def t_95(freedom: float) -> float:
    """Return how many standard errors hold 95 % where the error itself is known so well."""
    whole = int(freedom)
    if whole < len(_T_95):
        return _T_95[max(whole, 1)]
    z, v = _NORMAL_95, float(whole)
    # The expansion of the quantile around the normal one, right to three digits from here on.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


def _freedom(sums: Vector) -> float:
    """Return by how many groups the spread is known: few, where few of them make up most of it."""
    fourth = float((sums**4).sum())
    if fourth <= 0.0:
        return float(len(sums) - 1)
    kurtosis = len(sums) * fourth / float(sums @ sums) ** 2
    if kurtosis <= 1.0:
        return float(len(sums) - 1)
    return min(len(sums) - 1.0, 2.0 * len(sums) / (kurtosis - 1.0) - 1.0)


def _estimate(values: Vector, weights: Vector, logged: Logged) -> LikelyValue:
    shares = logged.shares
    value = float((shares * values).mean())
    return _around(value, shares * (values - value), shares * weights, logged.groups)


def _around(value: float, influence: Vector, weights: Vector, groups: Groups) -> LikelyValue:
    """Return the interval around a mean, groups being drawn as a whole."""
    n = len(influence)
    _, member = np.unique(groups, return_inverse=True)
    sums = np.bincount(member, weights=influence).astype(np.float64, copy=False)
    clusters = len(sums)
    half = np.inf
    if clusters > 1:
        spread = sqrt(float(sums @ sums) * clusters / (clusters - 1)) / n
        half = t_95(min(_freedom(sums), effective(weights) - 1.0)) * spread
    return LikelyValue(
        value=value, low=value - half, high=value + half, n=n, effective=effective(weights)
    )
