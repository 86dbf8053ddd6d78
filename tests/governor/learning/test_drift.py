"""Drifts: told when the mean moves, and hardly ever when it does not."""

import numpy as np

from governor.learning.drift import DriftTerms, DriftWatch

TERMS = DriftTerms()


def drifts_of(residuals: list[float]) -> tuple[int, int | None]:
    """Return how many drifts were told, and after how many residuals the first."""
    watch, first = DriftWatch(), None
    for at, residual in enumerate(residuals):
        watch, is_drift = watch.after(residual, TERMS)
        if is_drift and first is None:
            first = at
    return watch.drifts, first


def test_a_mean_that_stays_is_hardly_ever_taken_for_a_drift() -> None:
    told = [
        drifts_of(list(np.random.default_rng(seed).normal(0.1, 0.4, size=1_000)))[0]
        for seed in range(40)
    ]

    assert sum(told) < 30


def test_a_mean_that_moves_either_way_is_told_soon() -> None:
    for move in (-0.4, 0.4):
        dice = np.random.default_rng(7)
        residuals = [*dice.normal(0.0, 0.4, size=300), *dice.normal(move, 0.4, size=200)]

        count, first = drifts_of([float(one) for one in residuals])

        assert count >= 1
        assert first is not None
        assert 300 <= first < 420


def test_a_few_residuals_are_never_a_drift() -> None:
    assert drifts_of([1.0] * 29) == (0, None)
