"""Smoothing what is known of several tiers over rows that are alike, and how far that is off."""

import numpy as np

from governor.learning.linear import Fit, Matrix, RidgeProblem

# With fewer rows that are known in every tier, tiers are not compared row by row.
ROWS_MIN = 10
_TWO = 2


class Smoothings:
    """A smoothing of each tier's outcomes; tiers with the same evidence share their sums."""

    def __init__(self, rows: Matrix, targets: Matrix, weights: Matrix) -> None:
        """Take a column of targets and of weights for each tier, NaN where nothing is known."""
        self._rows, self._targets = rows, targets
        self._known = ~np.isnan(targets)
        self._problems: list[RidgeProblem] = []
        places: dict[bytes, int] = {}
        found = []
        for tier in range(targets.shape[1]):
            known = self._known[:, tier]
            key = known.tobytes() + weights[:, tier].tobytes()
            if key not in places:
                places[key] = len(places)
                self._problems.append(RidgeProblem(rows[known], weights[known, tier]))
            found.append(places[key])
        self.problem_of = tuple(found)

    def fit(self, tier: int, strength: float) -> Fit:
        """Return the smoothing of one tier."""
        targets = self._targets[self._known[:, tier], tier]
        return self._problems[self.problem_of[tier]].fit(targets[:, None], strength)

    def left_out(self, strength: float) -> Matrix:
        """Return what each row is foretold without itself, also where nothing was seen of it."""
        found = np.empty_like(self._targets)
        for tier in range(self._targets.shape[1]):
            fit, known = self.fit(tier, strength), self._known[:, tier]
            found[:, tier] = fit.level + self._rows @ fit.slopes[:, 0]
            found[known, tier] = fit.left_out[:, 0]
        return found

    def doubts(self, strength: float) -> list[Matrix]:
        """Return what doubt is measured by, for each different evidence."""
        return [problem.doubt(strength) for problem in self._problems]


def gap_errors(foretold: Matrix, scores: Matrix) -> Matrix:
    """Return how far each row's differences between tiers are off, or its scores."""
    whole = ~np.isnan(scores).any(axis=1)
    if scores.shape[1] < _TWO or int(whole.sum()) < ROWS_MIN:
        return errors_of_each(foretold, scores)
    off = (foretold - scores)[whole]
    squares: Matrix = ((off - off.mean(axis=1, keepdims=True)) ** 2).mean(axis=1)
    return squares


def errors_of_each(foretold: Matrix, targets: Matrix) -> Matrix:
    """Return the square of how far each known target is off."""
    known = ~np.isnan(targets)
    return (foretold[known] - targets[known]) ** 2
