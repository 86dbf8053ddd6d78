"""Weights are learned under which what is right comes first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.learning.listwise import Ranked, fitted


def made_up(weights: list[float], *, lists: int, seed: int) -> list[Ranked]:
    chance, made = np.random.default_rng(seed), []
    for _ in range(lists):
        rows = chance.random((len(weights), 20)).astype(np.float32)
        noise = chance.gumbel(size=20)
        right = np.zeros(20)
        right[int(np.argmax(np.array(weights) @ rows + noise))] = 1.0
        made.append(Ranked(rows=rows, right=right))
    return made


def test_the_weights_that_made_the_lists_are_found_again() -> None:
    truth = [5.0, -3.0, 0.0]

    learned = fitted(made_up(truth, lists=800, seed=1), pull=0.01)

    assert learned == pytest.approx(truth, abs=0.6)


def test_a_strong_pull_keeps_the_weights_that_were_there() -> None:
    lists, before = made_up([5.0, -3.0], lists=20, seed=2), np.array([1.0, 2.0])

    assert fitted(lists, pull=1e9) == pytest.approx([0, 0], abs=1e-3)
    assert fitted(lists, pull=1e9, towards=before) == pytest.approx(before, abs=1e-3)


def test_a_feature_that_is_always_the_same_keeps_its_weight() -> None:
    lists = [
        Ranked(rows=np.vstack([one.rows, np.ones(20, dtype=np.float32)]), right=one.right)
        for one in made_up([4.0], lists=50, seed=3)
    ]

    learned = fitted(lists, pull=1.0)

    assert learned[0] > 1
    assert learned[1] == pytest.approx(0, abs=1e-6)


@given(st.integers(0, 1000), st.floats(0.1, 100))
def test_no_other_weights_near_by_are_better(seed: int, pull: float) -> None:
    lists = made_up([2.0, -1.0], lists=8, seed=seed)
    spread = np.mean([one.rows.var(axis=1) for one in lists], axis=0)

    def loss(weights: np.ndarray) -> float:
        total = float(pull * spread @ weights**2) / 2
        for one in lists:
            scores = weights @ one.rows
            total += float(np.log(np.exp(scores).sum()) - one.right @ scores)
        return total

    best = fitted(lists, pull=pull)

    for away in ([0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1]):
        assert loss(best) <= loss(best + np.array(away))
