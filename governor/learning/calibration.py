"""How far forecasts can be taken at their word: mapped onto what came true, with intervals.

All of it is learned from forecasts of rows that had no part in them. Calibration maps a forecast
monotonely onto the mean of what rows with such forecasts came to (isotonic regression, over bins
that are filled alike), and only where that foretells the half of the rows that it was not learned
from better than the forecast itself. Intervals are conformal: of rows like those that were learned
from, at least the stated share falls within, whatever the forecasts are like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.linear import Matrix

COVERAGE = 0.9
KNOTS = 10
BINS = 5
# A bin of fewer rows says nothing of nine in ten.
_BIN_ROWS_MIN = 40

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A row for each tier: what a forecast comes to at `knots`, and how far outcomes lie about it.

    `edges` part forecasts into bins; of each bin `low` and `high` enclose the scores. The costs
    lie between `cost_low` and `cost_high` times what is expected.
    """

    knots: Matrix
    values: Matrix
    edges: Matrix
    low: Matrix
    high: Matrix
    cost_low: Matrix
    cost_high: Matrix

    def quality(self, raw: Matrix) -> Matrix:
        """Return forecasts of every tier, a column each, as what they come to."""
        found = np.empty_like(raw)
        for tier in range(raw.shape[-1]):
            found[..., tier] = np.interp(raw[..., tier], self.knots[tier], self.values[tier])
        return found

    def within(self, quality: Matrix) -> tuple[Matrix, Matrix]:
        """Return between what a single score lies, given the calibrated forecasts."""
        low, high = np.empty_like(quality), np.empty_like(quality)
        for tier in range(quality.shape[-1]):
            at = np.searchsorted(self.edges[tier], quality[..., tier], side="right")
            low[..., tier], high[..., tier] = self.low[tier][at], self.high[tier][at]
        return low, high


def calibration_of(
    quality: Matrix, cost: Matrix, scores: Matrix, costs: Matrix, weights: Matrix, *, seed: int
) -> Calibration:
    """Return the calibration of forecasts of rows unseen; NaN stands where no outcome is known."""
    halves = np.random.default_rng(seed).random(len(quality)) < 0.5  # noqa: PLR2004
    tiers = range(quality.shape[1])
    maps = [
        _map_of(quality[known, t], scores[known, t], weights[known, t], halves[known])
        for t in tiers
        for known in [~np.isnan(scores[:, t])]
    ]
    knots, values = np.stack([m[0] for m in maps]), np.stack([m[1] for m in maps])
    bins, ratios = [], []
    for t in tiers:
        known = ~np.isnan(scores[:, t])
        said = np.interp(quality[known, t], knots[t], values[t])
        bins.append(_bins_of(said, scores[known, t], weights[known, t]))
        paid = ~np.isnan(costs[:, t]) & (cost[:, t] > 0)
        ratios.append(_enclosing(costs[paid, t] / cost[paid, t], weights[paid, t]))
    return Calibration(
        knots=knots,
        values=values,
        edges=np.stack([each[0] for each in bins]),
        low=np.stack([each[1] for each in bins]),
        high=np.stack([each[2] for each in bins]),
        cost_low=np.array([each[0] for each in ratios]),
        cost_high=np.array([each[1] for each in ratios]),
    )


def _map_of(said: Matrix, true: Matrix, weights: Matrix, halves: Mask) -> tuple[Matrix, Matrix]:
    """Return knots and values; those that change nothing where no more is surely gained."""
    ends = np.linspace(float(said.min()), float(said.max()), KNOTS)
    gains = np.zeros(len(said))
    for half in (halves, ~halves):
        if min(half.sum(), (~half).sum()) < _BIN_ROWS_MIN:
            return ends, ends
        knots, values = _isotonic(said[half], true[half], weights[half])
        other = ~half
        mapped = np.interp(said[other], knots, values)
        gains[other] = (said[other] - true[other]) ** 2 - (mapped - true[other]) ** 2
    gains *= weights / weights.mean()
    if gains.mean() <= gains.std() / len(gains) ** 0.5:
        return ends, ends
    return _isotonic(said, true, weights)


def _isotonic(said: Matrix, true: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    """Return the means of bins that are filled alike, neighbours that fall joined (PAV)."""
    order = np.argsort(said, kind="stable")
    blocks: list[tuple[float, float, float]] = []
    for part in np.array_split(order, min(KNOTS, len(order))):
        weight = float(weights[part].sum())
        block = (
            weight,
            float(weights[part] @ said[part]) / weight,
            float(weights[part] @ true[part]) / weight,
        )
        while blocks and blocks[-1][2] >= block[2]:
            block = _joined(blocks.pop(), block)
        blocks.append(block)
    knots = [block[1] for block in blocks]
    values = [block[2] for block in blocks]
    spare = KNOTS - len(blocks)
    return np.array(knots + knots[-1:] * spare), np.array(values + values[-1:] * spare)


def _joined(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    weight = one[0] + other[0]
    said = (one[0] * one[1] + other[0] * other[1]) / weight
    true = (one[0] * one[2] + other[0] * other[2]) / weight
    return weight, said, true


def _bins_of(said: Matrix, true: Matrix, weights: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return the edges of bins, and what encloses the scores of each; spare bins are the last."""
    count = max(1, min(BINS, len(said) // _BIN_ROWS_MIN))
    edges = np.quantile(said, np.arange(1, count) / count) if count > 1 else np.zeros(0)
    at = np.searchsorted(edges, said, side="right")
    whole = _enclosing(true, weights)
    found = [
        _enclosing(true[at == number], weights[at == number]) if (at == number).any() else whole
        for number in range(count)
    ]
    spare = BINS - count
    padded = np.concatenate([edges, np.full(spare, np.finfo(np.float64).max)])
    sides = np.array(found + found[-1:] * spare)
    return padded, sides[:, 0], sides[:, 1]


def _enclosing(values: Matrix, weights: Matrix) -> tuple[float, float]:
    """Return what encloses `COVERAGE` of further values, as much left out on either side."""
    if not len(values):
        return 0.0, 1.0
    aside = (1.0 - COVERAGE) / 2
    return _tail(values, weights, aside), -_tail(-values, weights, aside)


def _tail(values: Matrix, weights: Matrix, share: float) -> float:
    """Return a value below which no more than a share of further values fall."""
    order = np.argsort(values, kind="stable")
    # The one to come counts as well, and may lie anywhere.
    reached = np.cumsum(weights[order]) / (weights.sum() + weights.mean())
    at = int(np.searchsorted(reached, share, side="right"))
    return float(values[order[max(0, at - 1)]])


def calibration_error(said: Matrix, true: Matrix, *, bins: int = KNOTS) -> float:
    """Return how far forecasts are off on average in bins that are filled alike."""
    order = np.argsort(said, kind="stable")
    parts: Sequence[npt.NDArray[np.int64]] = np.array_split(order, min(bins, len(order)))
    off = [abs(float(said[part].mean() - true[part].mean())) * len(part) for part in parts]
    return sum(off) / len(said)
