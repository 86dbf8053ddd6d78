"""How far forecasts can be taken at their word: scaled to what came true, with intervals.

All of it is learned from forecasts of rows that had no part in them. A forecast is taken apart
into what is common to all tiers, whether a prompt is hard, and what tells the tiers apart; each is
scaled by the slope at which it came true (Platt's calibration, for means), where that foretells
rows that the slope was not learned from surely better. So the order of prompts by what a dearer
tier gains stays as it is: a map for each tier alone would mend each forecast and spoil their
differences. Intervals are conformal: of rows like those that were learned from at least the stated
share falls within, whatever the forecasts are like.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from governor.learning.linear import Matrix

COVERAGE = 0.9
ERROR_BINS = 10
BINS = 5
# A bin of fewer rows says nothing of nine in ten.
_BIN_ROWS_MIN = 40
_SLOPE_ROWS_MIN = 80
# Slopes beyond that are noise.
_SLOPE_MIN, _SLOPE_MAX = 0.3, 3.0
_TINY = 1e-12

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What forecasts come to, and how far outcomes lie about them; a row for each tier.

    `slopes` scale what is common to all tiers and what tells them apart, both counted from
    `centers`. `edges` part forecasts into bins; of each bin `low` and `high` enclose the scores.
    The costs lie between `cost_low` and `cost_high` times what is expected.
    """

    slopes: Matrix
    centers: Matrix
    bounds: Matrix
    edges: Matrix
    low: Matrix
    high: Matrix
    cost_low: Matrix
    cost_high: Matrix

    def quality(self, raw: Matrix) -> Matrix:
        """Return forecasts of every tier, a column each, as what they come to."""
        off = raw - self.centers
        common = off.sum(axis=-1, keepdims=True) / off.shape[-1]
        found = self.centers + self.slopes[1] * off + (self.slopes[0] - self.slopes[1]) * common
        # All tiers are moved together into what there is: their differences are kept.
        most, least = float(self.bounds[1].max()), float(self.bounds[0].min())
        found -= np.maximum(found.max(axis=-1, keepdims=True) - most, 0.0)
        found += np.maximum(least - found.min(axis=-1, keepdims=True), 0.0)
        held: Matrix = np.minimum(np.maximum(found, self.bounds[0]), self.bounds[1])
        return held

    def within(self, quality: Matrix) -> tuple[Matrix, Matrix]:
        """Return between what a single score lies, given the calibrated forecasts."""
        low, high = np.empty_like(quality), np.empty_like(quality)
        for tier in range(quality.shape[-1]):
            at = np.searchsorted(self.edges[tier], quality[..., tier], side="right")
            low[..., tier], high[..., tier] = self.low[tier][at], self.high[tier][at]
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Forecasts of rows that had no part in them, and what came true; NaN where it is not known."""

    quality: Matrix
    cost: Matrix
    scores: Matrix
    costs: Matrix
    weights: Matrix


def calibration_of(unseen: Unseen, bounds: Matrix, *, seed: int) -> Calibration:
    """Return the calibration of forecasts, scores being within `bounds`."""
    scores, weights = unseen.scores, unseen.weights
    known = ~np.isnan(scores)
    tiers = range(scores.shape[1])
    slopes = _slopes_of(unseen, seed=seed)
    rough = Calibration(
        slopes=slopes,
        centers=unseen.quality.mean(axis=0),
        bounds=bounds,
        edges=np.zeros((0, 0)),
        low=bounds,
        high=bounds,
        cost_low=np.zeros(0),
        cost_high=np.zeros(0),
    )
    said = rough.quality(unseen.quality)
    bins = [
        _bins_of(said[at, tier], scores[at, tier], weights[at, tier])
        for tier in tiers
        for at in [known[:, tier]]
    ]
    is_paid = ~np.isnan(unseen.costs) & (unseen.cost > 0)
    ratios = [
        _enclosing(unseen.costs[at, tier] / unseen.cost[at, tier], weights[at, tier])
        for tier in tiers
        for at in [is_paid[:, tier]]
    ]
    return replace(
        rough,
        edges=np.stack([each[0] for each in bins]),
        low=np.stack([each[1] for each in bins]),
        high=np.stack([each[2] for each in bins]),
        cost_low=np.array([each[0] for each in ratios]),
        cost_high=np.array([each[1] for each in ratios]),
    )


def _slopes_of(unseen: Unseen, *, seed: int) -> Matrix:
    """Return what scales the common part and the differences: one where no more is gained."""
    is_whole = ~np.isnan(unseen.scores).any(axis=1)
    if int(is_whole.sum()) < _SLOPE_ROWS_MIN:
        return np.ones(2)
    said = unseen.quality[is_whole] - unseen.quality.mean(axis=0)
    true = unseen.scores[is_whole] - unseen.scores[is_whole].mean(axis=0)
    common, came = said.mean(axis=1, keepdims=True), true.mean(axis=1, keepdims=True)
    chance = np.random.default_rng(seed).random(len(said))
    halves: Mask = chance < np.median(chance)
    parts = ((common, came), (said - common, true - came))
    return np.array([_slope_of(one, other, halves) for one, other in parts])


def _slope_of(said: Matrix, true: Matrix, halves: Mask) -> float:
    """Return the slope at which forecasts came true."""
    gains = np.zeros(len(said))
    for half in (halves, ~halves):
        slope = _slope(said[half], true[half])
        other = ~half
        plain, scaled = said[other] - true[other], slope * said[other] - true[other]
        gains[other] = (plain**2).sum(axis=1) - (scaled**2).sum(axis=1)
    if gains.mean() <= gains.std() / len(gains) ** 0.5:
        return 1.0
    return _slope(said, true)


def _slope(said: Matrix, true: Matrix) -> float:
    square = float((said**2).sum())
    found = float((said * true).sum()) / square if square > _TINY else 1.0
    return min(max(found, _SLOPE_MIN), _SLOPE_MAX)


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


def calibration_error(said: Matrix, true: Matrix, *, bins: int = ERROR_BINS) -> float:
    """Return how far forecasts are off on average in bins that are filled alike."""
    order = np.argsort(said, kind="stable")
    parts: Sequence[npt.NDArray[np.int64]] = np.array_split(order, min(bins, len(order)))
    off = [abs(float(said[part].mean() - true[part].mean())) * len(part) for part in parts]
    return sum(off) / len(said)
