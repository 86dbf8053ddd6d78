"""The axes along which rows differ most, for learners that can afford only a few."""

from dataclasses import dataclass

import numpy as np

from governor.learning.linear import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """Turns rows into a few axes of like size, a constant behind them."""

    middle: Matrix
    axes: Matrix
    constant: float

    def applied(self, rows: Matrix) -> Matrix:
        """Return the rows in the reduced axes."""
        reduced = (rows - self.middle) @ self.axes
        return np.concatenate([reduced, np.full((len(rows), 1), self.constant)], axis=1)


def reduction_of(rows: Matrix, *, axes_max: int, constant: float = 0.5) -> Reduction:
    """Return the reduction to the axes that say most of these rows: rows of about length one."""
    middle = rows.mean(axis=0)
    spread = (rows - middle).T @ (rows - middle) / len(rows)
    sizes, turn = np.linalg.eigh(spread)
    kept = min(axes_max, int((sizes > 1e-9 * max(sizes[-1], 1e-12)).sum()))
    best = np.arange(len(sizes) - 1, len(sizes) - 1 - kept, -1)
    size = np.sqrt(np.maximum(sizes[best], 0.0)).mean() * kept**0.5 if kept else 1.0
    return Reduction(middle=middle, axes=turn[:, best] / max(size, 1e-12), constant=constant)
