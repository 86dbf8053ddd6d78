"""When a whole task moves up a tier: what its run looks like against what runs usually do.

From the words of a task nobody can tell whether a cheap model will solve it; from its run one
can, somewhat: long and dear runs, repeated errors and loops are those that fail. Moving up
costs the prompt that the provider has cached and the dearer tier for all the rest, and the
tasks that run long cost most there too, so the move has to pay for all of it.
"""

from dataclasses import dataclass, replace
from math import log

from governor.learning.averages import UNSEEN, Average
from governor.learning.signs import chance_of

_FORGETS = 0.995
_RUNS_MIN = 5.0
_CALLS_MIN = 4
_RATE = 0.05
_WEIGHT_MAX = 5.0
_WORSE_MIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFeatures:
    """What a session has done so far for one task, at one tier."""

    calls: int = 0
    cost_microusd: int = 0
    errors: int = 0
    loop_signals: int = 0
    turns: int = 0


NOT_BEGUN = RunFeatures()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualRun:
    """What a finished run of one class and tier takes, on average of logarithms."""

    log_calls: Average = UNSEEN
    log_cost: Average = UNSEEN

    def noted(self, features: RunFeatures) -> "UsualRun":
        """Return the averages after one more finished run."""
        return UsualRun(
            log_calls=self.log_calls.noted(log(features.calls + 1.0), kept=_FORGETS),
            log_cost=self.log_cost.noted(log(features.cost_microusd + 1.0), kept=_FORGETS),
        )

    @property
    def is_known(self) -> bool:
        """Tell whether enough runs ended to say what is usual."""
        return self.log_calls.weight >= _RUNS_MIN


NO_USUAL = UsualRun()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWeights:
    """How much each sign of a run says that it fails; the first values are from public runs."""

    bias: float = -0.4
    calls: float = 0.7
    cost: float = 0.3
    errors: float = 2.0
    loops: float = 0.8

    def learned(
        self, features: RunFeatures, usual: UsualRun, *, has_failed: bool, counts: float = 1.0
    ) -> "RunWeights":
        """Return the weights after the end of one more run: one step of logistic regression.

        `counts` is by how much of a run whoever told of its end is believed.
        """
        step = counts * _RATE * (float(has_failed) - failing_chance(features, usual, self))
        calls, cost, errors, loops = _signs(features, usual)

        def moved(weight: float, sign: float) -> float:
            return min(max(weight + step * sign, -_WEIGHT_MAX), _WEIGHT_MAX)

        return replace(
            self,
            bias=moved(self.bias, 1.0),
            calls=moved(self.calls, calls),
            cost=moved(self.cost, cost),
            errors=moved(self.errors, errors),
            loops=moved(self.loops, loops),
        )


FIRST_WEIGHTS = RunWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What the rest of a task is expected to take at its present tier and at the next one."""

    chance_up: float
    rest_microusd: int
    rest_up_microusd: int
    cache_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent:
    """Whether a session moves up for the rest of its task, and why."""

    is_worth_it: bool
    failing: float
    why: str


def failing_chance(features: RunFeatures, usual: UsualRun, weights: RunWeights) -> float:
    """Return the chance that a run like this one fails at its present tier."""
    calls, cost, errors, loops = _signs(features, usual)
    return chance_of(
        weights.bias
        + weights.calls * calls
        + weights.cost * cost
        + weights.errors * errors
        + weights.loops * loops
    )


def ascent_for(
    features: RunFeatures,
    ahead: Ahead,
    *,
    usual: UsualRun,
    weights: RunWeights,
    value_microusd: int,
) -> Ascent:
    """Return whether to move a session up a tier for the rest of its task."""
    failing = failing_chance(features, usual, weights)
    if features.calls < _CALLS_MIN:
        return Ascent(is_worth_it=False, failing=failing, why="the run has only begun")
    # A run like any other is no reason: whoever chose its tier knew of those.
    if failing < chance_of(weights.bias) + _WORSE_MIN:
        return Ascent(is_worth_it=False, failing=failing, why="the run is like others")
    gain = value_microusd * (ahead.chance_up - (1.0 - failing))
    price = ahead.rest_up_microusd - ahead.rest_microusd + ahead.cache_microusd
    is_worth_it = gain > price
    word = "is" if is_worth_it else "is not"
    why = f"it fails with {failing:.2f}: {gain:.0f} micro-dollars {word} worth {price}"
    return Ascent(is_worth_it=is_worth_it, failing=failing, why=why)


def _signs(features: RunFeatures, usual: UsualRun) -> tuple[float, float, float, float]:
    """Return the signs that are weighed; against an unknown usual only errors and loops count."""
    calls = cost = 0.0
    if usual.is_known:
        calls = log(features.calls + 1.0) - usual.log_calls.mean
        cost = log(features.cost_microusd + 1.0) - usual.log_cost.mean
    errors = features.errors / max(features.calls, 1)
    return calls, cost, min(errors, 1.0), log(features.loop_signals + 1.0)
