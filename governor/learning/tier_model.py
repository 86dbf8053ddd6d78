"""What each tier makes of a prompt, learned from outcomes: quality, its doubt, and cost.

Each tier's quality and the logarithm of its cost are smoothed over prompts that are alike. All
tiers are smoothed in the same way, and a smoothing is linear, so the difference of two tiers'
forecasts *is* the forecast of their difference. How much is smoothed, and what makes prompts
alike, is therefore chosen by how well that difference is foretold for rows left out: what a router
needs is not which prompts are hard, but where a dearer tier does better.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from governor.errors import TooFewOutcomesError
from governor.learning.blocks import BlockScaling, Shares, Widths, block_scaling_of
from governor.learning.calibration import Calibration, Unseen, calibration_of
from governor.learning.likeness import Rows
from governor.learning.linear import Matrix
from governor.learning.smoothing import ROWS_MIN, Smoothings, errors_of_each, gap_errors
from governor.learning.surface import Surface, Ways, learned_surface

LANDMARKS_MAX = 1_536
CONTEXT_AXES_MAX = 24
_AXES_MAX = 640
# Behind these axes the evidence of every row together says less than what is taken for granted.
_DOUBT_AXES_MAX = 96
_COST_LANDMARKS_MAX = 256
_COST_AXES_MAX = 128
SHARES = (
    Shares(meaning=2.0, words=4.0, form=1.0, state=1.0),
    Shares(meaning=4.0, words=2.0, form=1.0, state=1.0),
    Shares(meaning=1.0, words=1.0, form=0.5, state=1.0),
    Shares(meaning=1.0, words=0.0, form=0.2, state=0.5),
    Shares(meaning=0.0, words=0.0, form=1.0, state=1.0),
    Shares(meaning=0.1, words=0.1, form=0.1, state=1.0),
)
# What a prompt costs follows from broader traits than where a dearer tier does better.
COST_SHARES = (
    Shares(meaning=0.3, words=0.3, form=0.2, state=1.0),
    Shares(meaning=1.0, words=1.0, form=0.5, state=1.0),
)
# Against costs of nothing: a share of the mean below which costs are told apart no more.
_COST_FLOOR = 1e-3
_TINY = 1e-12
_LOG_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of each row in each tier: a column for each; NaN where it is not known."""

    scores: Matrix
    costs: Matrix
    weights: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """What is expected of each row in each tier; `raw` is the quality before calibration."""

    raw: Matrix
    quality: Matrix
    quality_sd: Matrix
    cost: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class TierModel:
    """What was learned; arrays and numbers only, so that it can be kept in a file.

    `doubts` holds a matrix for each different evidence, `doubt_of` which of them is a tier's:
    tiers that were all seen on the same rows share one.
    """

    scaling: BlockScaling
    quality: Surface
    bounds: Matrix
    cost: Surface
    cost_bounds: Matrix
    doubts: Rows
    doubt_of: tuple[int, ...]
    scatter: Matrix
    calibration: Calibration

    def forecasts(self, rows: Rows) -> Forecasts:
        """Return what is expected of rows of features."""
        return self._forecasts(
            self.quality.spanned(rows, self.scaling), self.cost.spanned(rows, self.scaling)
        )

    def _forecasts(self, spanned: Rows, cost_spanned: Rows) -> Forecasts:
        raw = within(self.quality.values(spanned), self.bounds)
        return Forecasts(
            raw=raw,
            quality=self.calibration.quality(raw),
            quality_sd=self.doubt(spanned),
            cost=self.cost_from(self.cost.values(cost_spanned)),
        )

    def quality_from(self, values: Matrix) -> Matrix:
        """Return values of the quality's surface as the qualities that they come to."""
        return self.calibration.quality(within(values, self.bounds))

    def cost_from(self, logs: Matrix) -> Matrix:
        """Return values of the cost's surface as costs that there are."""
        costs = np.exp(np.minimum(logs, _LOG_MAX))
        return within(costs, self.cost_bounds)

    def doubt(self, spanned: Rows) -> Matrix:
        """Return how far the expectations may be off, as of a Gaussian process.

        Along the axes behind those that doubts are kept for next to nothing was learned.
        """
        seen = spanned[:, : self.doubts.shape[1]]
        known = np.stack([((seen @ one) ** 2).sum(axis=1) for one in self.doubts], axis=1)
        return self.doubt_from(known, (seen**2).sum(axis=1, keepdims=True))

    def doubt_from(self, known: Rows, seen: Rows) -> Matrix:
        """Return the doubt of what is known along the axes, and of what lies off all of them."""
        # There it is as unknown as before anything was learned.
        unseen = np.maximum(0.0, 1.0 - seen) / self.quality.strength
        spread: Matrix = np.sqrt(known[..., self.doubt_of] + unseen).astype(np.float64)
        return self.scatter * spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A model, and what it would have expected of each row had it not seen that row."""

    model: TierModel
    left_out: Forecasts


def learned_from(
    rows: Rows,
    outcomes: Outcomes,
    widths: Widths,
    *,
    seed: int,
    shares_tried: Sequence[Shares] = SHARES,
) -> Learned:
    """Return what is learned of these rows; how is chosen by what it foretells of rows left out.

    Raises:
        TooFewOutcomesError: a tier has fewer than `ROWS_MIN` outcomes.
    """
    scores, costs, weights = outcomes.scores, outcomes.costs, outcomes.weights
    if len(rows) == 0 or int((~np.isnan(scores)).sum(axis=0).min()) < ROWS_MIN:
        raise TooFewOutcomesError(f"every tier needs {ROWS_MIN} rows with an outcome")
    scaling = block_scaling_of(rows, widths)
    ways = Ways(
        shares=shares_tried, errors=gap_errors, landmarks_max=LANDMARKS_MAX, axes_max=_AXES_MAX
    )
    quality = learned_surface(rows, scores, weights, scaling, ways, seed=seed)
    cost_ways = Ways(
        shares=COST_SHARES,
        errors=errors_of_each,
        landmarks_max=_COST_LANDMARKS_MAX,
        axes_max=_COST_AXES_MAX,
    )
    cost = learned_surface(rows, _logs(costs), weights, scaling, cost_ways, seed=seed)
    expected = np.exp(cost.left_out)
    # The mean of logarithms is not the logarithm of the mean.
    means = np.nanmean(costs, axis=0)
    lifted = np.clip(means / np.maximum(expected.mean(axis=0), _TINY), 0.1, 10.0)
    bounds = np.stack([np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)])
    cost_bounds = np.stack([np.nanmin(costs, axis=0), np.nanmax(costs, axis=0)])
    surface = quality.surface
    raw = within(quality.left_out, bounds)
    expected = within(expected * lifted, cost_bounds)
    unseen = Unseen(quality=raw, cost=expected, scores=scores, costs=costs, weights=weights)
    calibration = calibration_of(unseen, bounds, seed=seed)
    doubting = Smoothings(quality.spanned[:, :_DOUBT_AXES_MAX].astype(np.float64), scores, weights)
    model = TierModel(
        scaling=scaling,
        quality=surface,
        bounds=bounds,
        cost=replace(cost.surface, levels=cost.surface.levels + np.log(lifted)),
        cost_bounds=cost_bounds,
        doubts=np.stack(doubting.doubts(surface.strength)).astype(np.float32, order="C"),
        doubt_of=doubting.problem_of,
        scatter=np.sqrt(np.nanmean((scores - quality.left_out) ** 2, axis=0)),
        calibration=calibration,
    )
    left_out = Forecasts(
        raw=raw,
        quality=calibration.quality(raw),
        quality_sd=model.doubt(quality.spanned),
        cost=expected,
    )
    return Learned(model=model, left_out=left_out)


def within(values: Matrix, bounds: Matrix) -> Matrix:
    """Return values between a lowest and a highest for each tier."""
    found: Matrix = np.minimum(np.maximum(values, bounds[0]), bounds[1])
    return found


def _logs(costs: Matrix) -> Matrix:
    """Return the logarithms of costs, those near nothing as one small share of the mean."""
    floors = np.maximum(np.nanmean(costs, axis=0) * _COST_FLOOR, _TINY)
    logs: Matrix = np.log(np.maximum(costs, floors))
    return logs
