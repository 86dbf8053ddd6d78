"""Ridge regression in closed form, for several targets at once, judged by what it leaves out.

Leaving one row out needs no second fit: what a row adds to its own prediction is known, and can be
taken away (Allen's PRESS). So strengths of the ridge are compared on predictions of rows that had
no part in them, for the price of one decomposition.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
SPREAD_MIN = 1e-9
# A row that decides its own prediction alone has nothing to be judged by.
_OWN_PART_MAX = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What brings each column to mean zero and spread one, as seen when it was learned."""

    center: Matrix
    spread: Matrix

    def applied(self, rows: Matrix) -> Matrix:
        """Return the rows in these units; a column that never varied becomes zero."""
        varies = self.spread > SPREAD_MIN
        return np.where(varies, (rows - self.center) / np.where(varies, self.spread, 1.0), 0.0)


def scaling_of(rows: Matrix) -> Scaling:
    """Return the scaling that the rows themselves have."""
    return Scaling(center=rows.mean(axis=0), spread=rows.std(axis=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted ridge: `level` plus a row times `slopes`; `left_out` predicts each row unseen."""

    level: Matrix
    slopes: Matrix
    left_out: Matrix


class RidgeProblem:
    """Rows and their weights, decomposed once for every target and strength of the ridge."""

    def __init__(self, rows: Matrix, weights: Matrix) -> None:
        """Take a weight above zero for each row."""
        self._weights = weights
        self._center = weights @ rows / weights.sum()
        centered = rows - self._center
        squares, self._turn = np.linalg.eigh((centered * weights[:, None]).T @ centered)
        self._squares = np.maximum(squares, 0.0)
        self._turned = centered @ self._turn

    def fit(self, targets: Matrix, strength: float) -> Fit:
        """Return the fit to a column of targets, or to several, at one strength above zero."""
        weights, shrunk = self._weights, self._squares + strength
        mean = weights @ targets / weights.sum()
        pull = self._turned.T @ ((targets - mean) * weights[:, None]) / shrunk[:, None]
        own = weights * ((self._turned**2) @ (1.0 / shrunk) + 1.0 / weights.sum())
        own = np.minimum(own, _OWN_PART_MAX)[:, None]
        slopes = self._turn @ pull
        return Fit(
            level=mean - self._center @ slopes,
            slopes=slopes,
            left_out=(mean + self._turned @ pull - own * targets) / (1.0 - own),
        )

    def doubt(self, strength: float) -> Matrix:
        """Return D such that the length of a row times D is how little is known of it."""
        found: Matrix = self._turn / np.sqrt(self._squares + strength)
        return found
