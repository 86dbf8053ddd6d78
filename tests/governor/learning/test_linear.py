"""Ridges foretell rows that they did not see, as if each had been left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.linear import RidgeProblem, scaling_of


@given(seed=st.integers(0, 1_000), strength=st.sampled_from([0.5, 5.0, 50.0]))
def test_what_is_left_out_is_foretold_as_without_it(seed: int, strength: float) -> None:
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(40, 5))
    targets = chance.normal(size=(40, 1))
    even = np.ones(40)

    fit = RidgeProblem(rows, even).fit(targets, strength)

    kept = even.copy()
    kept[7] = 1e-12  # a row that counts for nothing is a row left out
    without = RidgeProblem(rows, kept).fit(targets, strength)
    foretold = without.level + rows[7] @ without.slopes
    assert fit.left_out[7, 0] == pytest.approx(foretold[0], rel=1e-6)


def test_a_column_that_never_varies_becomes_zero() -> None:
    rows = np.array([[1.0, 3.0], [1.0, 5.0]])

    assert scaling_of(rows).applied(rows).tolist() == [[0.0, -1.0], [0.0, 1.0]]
