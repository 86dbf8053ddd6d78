"""What each tier makes of a prompt, learned from outcomes: quality, its doubt, and cost.

Each tier's quality and the logarithm of its cost are smoothed over prompts that are alike. All
tiers are smoothed in the same way, and a smoothing is linear, so the difference of two tiers'
forecasts *is* the forecast of their difference. How much is smoothed, and what makes prompts
alike, is therefore chosen by how well that difference is foretold for rows left out: what a router
needs is not which prompts are hard, but where a dearer tier does better.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.errors import TooFewOutcomesError
from governor.learning.blocks import BlockScaling, Shares, Widths, block_scaling_of
from governor.learning.likeness import Landmarks, Rows, landmarks_of, spanning_axes
from governor.learning.linear import Matrix
from governor.learning.smoothing import (
    ROWS_MIN,
    Smoothings,
    errors_of_each,
    gap_errors,
)

LANDMARKS_MAX = 1_536
AXES_MAX = 320
CONTEXT_AXES_MAX = 24
CHOOSING_ROWS_MAX = 1_000
STRENGTHS = (1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 150.0, 500.0, 2_000.0)
SHARES = (
    Shares(meaning=2.0, words=4.0, form=1.0, state=1.0),
    Shares(meaning=4.0, words=2.0, form=1.0, state=1.0),
    Shares(meaning=1.0, words=1.0, form=0.5, state=1.0),
    Shares(meaning=1.0, words=0.0, form=0.2, state=0.5),
    Shares(meaning=0.0, words=0.0, form=1.0, state=1.0),
    Shares(meaning=0.1, words=0.1, form=0.1, state=1.0),
)
# Against costs of nothing: a share of the mean below which costs are told apart no more.
_COST_FLOOR = 1e-3
_TINY = 1e-12
_LOG_MAX = 60.0
# Rows are taken in parts: the likenesses of all of them at once would take gigabytes.
_ROWS_AT_ONCE = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of each row in each tier: a column for each; NaN where it is not known."""

    scores: Matrix
    costs: Matrix
    weights: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """What is expected of each row in each tier."""

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
    shares: Shares
    strength: float
    landmarks: Landmarks
    axes: Rows
    levels: Matrix
    slopes: Rows
    bounds: Matrix
    cost_levels: Matrix
    cost_slopes: Rows
    cost_bounds: Matrix
    doubts: Rows
    doubt_of: tuple[int, ...]
    scatter: Matrix

    def forecasts(self, rows: Rows) -> Forecasts:
        """Return what is expected of rows of features."""
        found = [
            self._forecasts(
                self.landmarks.likeness(self.scaling.applied(part, self.shares)) @ self.axes
            )
            for part in np.array_split(rows, max(1, -(-len(rows) // _ROWS_AT_ONCE)))
        ]
        return Forecasts(
            quality=np.concatenate([part.quality for part in found]),
            quality_sd=np.concatenate([part.quality_sd for part in found]),
            cost=np.concatenate([part.cost for part in found]),
        )

    def forecast_of(self, row: Rows) -> tuple[Forecasts, Matrix]:
        """Return what is expected of one row, and the row as a bandit sees it."""
        scaled = self.scaling.applied(row[None, :], self.shares)[0]
        spanned = self.landmarks.likeness_of(scaled) @ self.axes
        context = np.zeros(CONTEXT_AXES_MAX)
        seen = spanned[:CONTEXT_AXES_MAX]
        context[: len(seen)] = seen
        return self._forecasts(spanned[None, :]), context

    def _forecasts(self, spanned: Rows) -> Forecasts:
        quality = self.levels + (spanned @ self.slopes).astype(np.float64)
        logs = self.cost_levels + (spanned @ self.cost_slopes).astype(np.float64)
        return Forecasts(
            quality=np.clip(quality, *self.bounds),
            quality_sd=self.doubt(spanned),
            cost=np.clip(np.exp(np.clip(logs, -_LOG_MAX, _LOG_MAX)), *self.cost_bounds),
        )

    def doubt(self, spanned: Rows) -> Matrix:
        """Return how far the expectations may be off, as of a Gaussian process."""
        known = np.stack([((spanned @ one) ** 2).sum(axis=1) for one in self.doubts], axis=1)
        # What lies off all axes is as unknown as before anything was learned.
        unseen = np.maximum(0.0, 1.0 - (spanned**2).sum(axis=1)) / self.strength
        spread: Matrix = np.sqrt(known[:, self.doubt_of] + unseen[:, None]).astype(np.float64)
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
    known = ~np.isnan(outcomes.scores)
    if len(rows) == 0 or int(known.sum(axis=0).min()) < ROWS_MIN:
        raise TooFewOutcomesError(f"every tier needs {ROWS_MIN} rows with an outcome")
    chance = np.random.default_rng(seed)
    scaling = block_scaling_of(rows, widths)
    sample = np.sort(chance.permutation(len(rows))[:CHOOSING_ROWS_MAX])
    choices = [
        _tried(scaling.applied(rows[sample], shares), _of_rows(outcomes, sample), shares)
        for shares in _usable(scaling, shares_tried)
    ]
    best = _preferred(choices)
    picked = np.sort(chance.permutation(len(rows))[:LANDMARKS_MAX])
    scaled = scaling.applied(rows, best.shares)
    landmarks = landmarks_of(scaled[picked])
    axes = spanning_axes(landmarks, axes_max=AXES_MAX).astype(np.float32)
    spanned = np.concatenate(
        [
            landmarks.likeness(part) @ axes
            for part in np.array_split(scaled, max(1, -(-len(rows) // _ROWS_AT_ONCE)))
        ]
    )
    return _fitted(spanned, outcomes, scaling=scaling, choice=best, landmarks=landmarks, axes=axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    shares: Shares
    strength: float
    cost_strength: float
    errors: Matrix


def _preferred(choices: Sequence[_Choice]) -> _Choice:
    """Return the first choice, or the best of those that are better by more than chance.

    The first is what serves most prompts well. A choice by error alone follows the noise of a
    thousand rows, and costs more than it brings.
    """
    first = choices[0]
    found, least = first, 0.0
    for choice in choices[1:]:
        gain = first.errors - choice.errors
        surely = float(gain.mean() - gain.std() / len(gain) ** 0.5)
        if surely > least:
            found, least = choice, surely
    return found


def _usable(scaling: BlockScaling, tried: Sequence[Shares]) -> list[Shares]:
    """Return the shares to try: no two that come to the same where a block never varies."""
    has_meaning = bool(scaling.middle.any())
    has_state = bool((scaling.state.spread > 0).any())
    found: dict[Shares, None] = {}
    for shares in tried:
        meaning = shares.meaning if has_meaning else 0.0
        words = shares.words if scaling.rarity.any() else 0.0
        state = shares.state if has_state else 0.0
        found[Shares(meaning=meaning, words=words, form=shares.form, state=state)] = None
    return list(found)


def _tried(scaled: Rows, outcomes: Outcomes, shares: Shares) -> _Choice:
    """Return the best strengths under these shares, and how well they foretell."""
    landmarks = landmarks_of(scaled)
    axes = spanning_axes(landmarks, axes_max=AXES_MAX)
    spanned = landmarks.likeness(scaled).astype(np.float64) @ axes
    scores, logs = outcomes.scores, _logs(outcomes.costs)
    qualities = Smoothings(spanned, scores, outcomes.weights)
    costs = Smoothings(spanned, logs, outcomes.weights)
    errors = [gap_errors(qualities.left_out(strength), scores) for strength in STRENGTHS]
    cost_errors = [errors_of_each(costs.left_out(strength), logs).mean() for strength in STRENGTHS]
    best = int(np.argmin([each.mean() for each in errors]))
    return _Choice(
        shares=shares,
        strength=STRENGTHS[best],
        cost_strength=STRENGTHS[int(np.argmin(cost_errors))],
        errors=errors[best],
    )


def _fitted(
    spanned: Rows,
    outcomes: Outcomes,
    *,
    scaling: BlockScaling,
    choice: _Choice,
    landmarks: Landmarks,
    axes: Rows,
) -> Learned:
    scores, costs = outcomes.scores, outcomes.costs
    rows = spanned.astype(np.float64)
    qualities = Smoothings(rows, scores, outcomes.weights)
    prices = Smoothings(rows, _logs(costs), outcomes.weights)
    quality_fits = [qualities.fit(tier, choice.strength) for tier in range(scores.shape[1])]
    cost_fits = [prices.fit(tier, choice.cost_strength) for tier in range(scores.shape[1])]
    left_out = qualities.left_out(choice.strength)
    expected = np.exp(prices.left_out(choice.cost_strength))
    means = np.nanmean(costs, axis=0)
    # The mean of logarithms is not the logarithm of the mean.
    lifted = np.clip(means / np.maximum(expected.mean(axis=0), _TINY), 0.1, 10.0)
    floors = np.maximum(np.nanmin(costs, axis=0), 0.0)
    bounds = np.stack([np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)])
    cost_bounds = np.stack([floors, np.nanmax(costs, axis=0)])
    model = TierModel(
        scaling=scaling,
        shares=choice.shares,
        strength=choice.strength,
        landmarks=landmarks,
        axes=axes,
        levels=np.array([fit.level[0] for fit in quality_fits]),
        slopes=np.concatenate([fit.slopes for fit in quality_fits], axis=1).astype(np.float32),
        bounds=bounds,
        cost_levels=np.array([fit.level[0] for fit in cost_fits]) + np.log(lifted),
        cost_slopes=np.concatenate([fit.slopes for fit in cost_fits], axis=1).astype(np.float32),
        cost_bounds=cost_bounds,
        doubts=np.stack(qualities.doubts(choice.strength)).astype(np.float32),
        doubt_of=qualities.problem_of,
        scatter=np.sqrt(np.nanmean((scores - left_out) ** 2, axis=0)),
    )
    return Learned(
        model=model,
        left_out=Forecasts(
            quality=np.clip(left_out, *bounds),
            quality_sd=model.doubt(spanned),
            cost=np.clip(expected * lifted, *cost_bounds),
        ),
    )


def _logs(costs: Matrix) -> Matrix:
    """Return the logarithms of costs, those near nothing as one small share of the mean."""
    floors = np.maximum(np.nanmean(costs, axis=0) * _COST_FLOOR, _TINY)
    logs: Matrix = np.log(np.maximum(costs, floors))
    return logs


def _of_rows(outcomes: Outcomes, rows: npt.NDArray[np.int64]) -> Outcomes:
    return Outcomes(
        scores=outcomes.scores[rows],
        costs=outcomes.costs[rows],
        weights=outcomes.weights[rows],
    )
