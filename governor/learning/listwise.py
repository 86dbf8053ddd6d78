"""Weights under which what is right comes before what is not, learned from lists.

Each list is a question's candidates (columns) by their features (rows). The weights make the
right ones likely under a softmax over the list (Cao et al., 2007). The loss is convex and is
brought down by Newton's method, so there is no rate to set and nothing is drawn at random. What
keeps the weights small, or near others that were there before, is a square penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS_MAX = 30
_HALVINGS_MAX = 20
_SMALL = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One list: features by row, candidates by column, and how right each candidate is.

    The rightness of a list adds up to 1.
    """

    rows: npt.NDArray[np.float32]
    right: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slope:
    """How deep a list lies, and how it falls and bends."""

    loss: float
    gradient: Floats
    bend: Floats


def fitted(lists: Sequence[Ranked], *, pull: float, towards: Floats | None = None) -> Floats:
    """Return a weight for each feature, pulled `towards` others (or 0) as `pull` lists would.

    The pull is in units of a feature's spread, so that it is the same for all.
    """
    pulls = np.asarray(pull * _variance(lists), dtype=np.float64)
    prior = np.zeros(pulls.size) if towards is None else towards
    weights, slope = prior.copy(), _slope(lists, prior, prior, pulls)
    for _ in range(_STEPS_MAX):
        step = np.asarray(np.linalg.solve(slope.bend, slope.gradient), dtype=np.float64)
        better = _downhill(lists, weights, step, slope, prior=prior, pulls=pulls)
        if better is None:
            break
        gained = slope.loss - better[1].loss
        weights, slope = better
        if gained < _SMALL * len(lists):
            break
    return weights


def _downhill(
    lists: Sequence[Ranked],
    weights: Floats,
    step: Floats,
    slope: _Slope,
    *,
    prior: Floats,
    pulls: Floats,
) -> tuple[Floats, _Slope] | None:
    """Return where the step leads, halved until that is lower; None where it never is."""
    for _ in range(_HALVINGS_MAX):
        there = weights - step
        found = _slope(lists, there, prior, pulls)
        if found.loss < slope.loss:
            return there, found
        step = step / 2
    return None


def _slope(lists: Sequence[Ranked], weights: Floats, prior: Floats, pulls: Floats) -> _Slope:
    away = weights - prior
    loss = float(pulls @ away**2) / 2
    gradient = pulls * away
    # The least bit of bend everywhere: a feature that is always the same has none of its own.
    bend = np.diag(pulls + _SMALL)
    for one in lists:
        scores = weights @ one.rows
        scores -= scores.max()
        chance = np.exp(scores)
        total = float(chance.sum())
        chance /= total
        loss += np.log(total) - float(one.right @ scores)
        mean = one.rows @ chance
        gradient += mean - one.rows @ one.right
        bend += (one.rows * chance) @ one.rows.T - np.outer(mean, mean)
    return _Slope(loss=loss, gradient=gradient, bend=bend)


def _variance(lists: Sequence[Ranked]) -> Floats:
    """Return how far each feature spreads inside a list, squared, in the mean over the lists."""
    return np.asarray(np.mean([one.rows.var(axis=1) for one in lists], axis=0), dtype=np.float64)
