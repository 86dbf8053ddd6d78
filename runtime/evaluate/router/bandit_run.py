"""Learning while serving: a bandit that is told late, and only of the tier it chose.

What a tier earns is its score less what its mean cost is worth, at the price of money at which the
cheapest tier and the best one earn the same: so nothing is gained without telling prompts apart.
The measure is the gain over always taking the best tier, in the second half of a stream, as a share
of what the same learner gains when it is told, as late, what *every* tier would have scored.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from governor.learning.bandit import Bandit, BanditTerms, Lesson
from governor.learning.linear import Matrix
from governor.learning.reduction import reduction_of
from runtime.evaluate.router.foretelling import Table
from runtime.evaluate.router.splits import Places

DELAY = 200
_AXES = 25
_STREAMS = 3
_FIRST_ROWS = 500
_RIDGE = 2.0
_SCATTER = 0.12
# Nobody earns more than a score of one: an arm that was never tried is worth a trial.
_OPTIMISM = 1.0
_ROWS_PER_AXIS = 20
# Gains below this are noise, and shares of them nonsense.
_GAIN_MIN = 0.002
_ROWS_MIN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditResult:
    """What was gained; the share is None where full information gains nothing either."""

    delay: int
    share_of_full_information: float | None
    gain_pp: float
    full_gain_pp: float
    dear_share: float
    streams: int


def bandit_run(table: Table, *, seed: int) -> BanditResult | None:
    """Return what is learned while serving; None where there is too little to learn from."""
    rows, arms = table.scores.shape
    if rows < _ROWS_MIN or arms == 1:
        return None
    delay = min(DELAY, rows // 4)
    prices = _prices(table)
    gains = []
    for stream in range(_STREAMS):
        order = np.random.default_rng(seed + stream).permutation(rows)
        contexts, scores = _contexts(table, order), table.scores[order]
        for explores in (True, False):
            chosen = _served(contexts, scores, prices, delay, explores=explores, seed=seed + stream)
            gains.append(_gained(chosen, scores, prices))
    told, full = np.array(gains[0::2]), np.array(gains[1::2])
    gain, full_gain = float(told[:, 0].mean()), float(full[:, 0].mean())
    return BanditResult(
        delay=delay,
        share_of_full_information=gain / full_gain if full_gain > _GAIN_MIN else None,
        gain_pp=100 * gain,
        full_gain_pp=100 * full_gain,
        dear_share=float(told[:, 1].mean()),
        streams=_STREAMS,
    )


def _prices(table: Table) -> Matrix:
    """Return what each tier costs in score."""
    scores, costs = table.scores.mean(axis=0), table.costs.mean(axis=0)
    best = int(scores.argmax())
    dearer = costs[best] - costs[0]
    price = (scores[best] - scores[0]) / dearer if dearer > 0 else 0.0
    worth: Matrix = price * (costs - costs[0])
    return worth


def _contexts(table: Table, order: Places) -> Matrix:
    """Return the prompts as a bandit sees them: reduced by what the first of them are like."""
    widths = table.widths
    block = slice(0, widths.meaning) if widths.meaning else slice(0, widths.words)
    rows = table.rows[order, block].astype(np.float64)
    axes = max(1, min(_AXES, len(rows) // _ROWS_PER_AXIS))
    reduced = reduction_of(rows[:_FIRST_ROWS], axes_max=axes).applied(rows)
    # A bandit has its constant first.
    return np.roll(reduced, 1, axis=1)


def _served(
    contexts: Matrix, scores: Matrix, prices: Matrix, delay: int, *, explores: bool, seed: int
) -> Places:
    """Return the arm that each prompt of a stream went to; who does not explore is told of all."""
    names = [str(arm) for arm in range(scores.shape[1])]
    terms = BanditTerms(
        dimensions=contexts.shape[1], ridge=_RIDGE, scatter=_SCATTER, optimism=_OPTIMISM
    )
    learner, chance = Bandit(terms), np.random.default_rng(seed)
    waiting: deque[tuple[int, int]] = deque()
    chosen = np.zeros(len(contexts), dtype=np.int64)
    for at, context in enumerate(contexts):
        found = learner.expected(context, names)
        drawn = found.spread * chance.standard_normal(len(names)) if explores else 0.0
        chosen[at] = int((found.mean + drawn - prices).argmax())
        waiting.append((at, int(chosen[at])))
        if len(waiting) > delay:
            told, taken = waiting.popleft()
            for arm in (taken,) if explores else range(len(names)):
                learner.learn(
                    Lesson(
                        arm=names[arm],
                        context=contexts[told],
                        reward=float(scores[told, arm]),
                        weight=1.0,
                        period=0,
                    )
                )
    return chosen


def _gained(chosen: Places, scores: Matrix, prices: Matrix) -> tuple[float, float]:
    """Return the gain over the best single tier in the second half, and the share of dear calls."""
    half = len(chosen) // 2
    earned = scores[half:] - prices
    taken = earned[np.arange(len(earned)), chosen[half:]].mean()
    return float(taken - earned.mean(axis=0).max()), float((chosen[half:] != 0).mean())
