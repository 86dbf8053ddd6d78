"""Forecasts come to mean what they say, and intervals hold what they promise."""

import numpy as np
import numpy.typing as npt
import pytest

from governor.learning.calibration import (
    COVERAGE,
    Calibration,
    Unseen,
    calibration_error,
    calibration_of,
)

Numbers = npt.NDArray[np.float64]
ROWS = 2_000


def told(chance: np.random.Generator, *, rows: int = ROWS) -> tuple[Numbers, Numbers]:
    """Return forecasts that are too sure of themselves, and the chances that they stand for."""
    said = chance.random((rows, 2))
    return said, 0.5 + 0.4 * (said - 0.5)


def of(said: Numbers, scores: Numbers, costs: Numbers) -> Calibration:
    ones = np.ones_like(said)
    bounds = np.array([[0.0, 0.0], [1.0, 1.0]])
    unseen = Unseen(quality=said, cost=ones, scores=scores, costs=costs, weights=ones)
    return calibration_of(unseen, bounds, seed=0)


@pytest.mark.requirement("router.calibrated")
def test_forecasts_that_are_too_sure_are_drawn_in() -> None:
    chance = np.random.default_rng(1)
    said, true = told(chance)
    scores = (chance.random(said.shape) < true).astype(np.float64)
    later, later_true = told(chance)

    found = of(said, scores, np.ones_like(said)).quality(later)

    assert calibration_error(later[:, 0], later_true[:, 0]) > 0.1
    assert calibration_error(found[:, 0], later_true[:, 0]) < 0.04
    apart, after = later[:, 1] - later[:, 0], found[:, 1] - found[:, 0]
    assert (np.diff(after[np.argsort(apart)]) >= 0).all(), "what gains most gains most still"


@pytest.mark.requirement("router.calibrated")
def test_forecasts_that_are_right_stay_as_they_are() -> None:
    chance = np.random.default_rng(2)
    said, _ = told(chance)
    scores = (chance.random(said.shape) < said).astype(np.float64)

    found = of(said, scores, np.ones_like(said)).quality(said)

    assert found == pytest.approx(said, abs=1e-9)


@pytest.mark.requirement("router.calibrated")
def test_nine_in_ten_scores_and_costs_fall_within_their_intervals() -> None:
    chance = np.random.default_rng(3)
    said, true = told(chance)
    scores = np.clip(true + 0.2 * chance.standard_normal(said.shape), 0, 1)
    costs = np.exp(chance.standard_normal(said.shape))
    calibration = of(said, scores, costs)

    later, later_true = told(chance)
    later_scores = np.clip(later_true + 0.2 * chance.standard_normal(later.shape), 0, 1)
    low, high = calibration.within(calibration.quality(later))
    later_costs = np.exp(chance.standard_normal(later.shape))
    paid = (calibration.cost_low <= later_costs) & (later_costs <= calibration.cost_high)

    held = (low <= later_scores) & (later_scores <= high)
    assert COVERAGE - 0.03 < held.mean() < COVERAGE + 0.03
    assert COVERAGE - 0.03 < paid.mean() < COVERAGE + 0.03
    assert (high - low).mean() < 0.8, "an interval of everything would hold as much"


@pytest.mark.parametrize("rows", [10, 60])
def test_a_few_outcomes_known_in_parts_are_enough(rows: int) -> None:
    chance = np.random.default_rng(4)
    said, true = told(chance, rows=rows)
    scores = np.where(chance.random(said.shape) < 0.5, np.nan, true)
    scores[0], scores[1] = 0.5, 0.6

    calibration = of(said, scores, scores)

    low, high = calibration.within(calibration.quality(said))
    assert (low <= high).all()
    assert np.isfinite(calibration.quality(said)).all()
