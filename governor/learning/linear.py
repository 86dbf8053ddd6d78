"""Ridge regression in closed form, for several targets at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
_SPREAD_MIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What brings each column to mean zero and spread one, as seen when it was learned."""

    center: Matrix
    spread: Matrix

    def applied(self, rows: Matrix) -> Matrix:
        """Return the rows in these units; a column that never varied becomes zero."""
        varies = self.spread > _SPREAD_MIN
        return np.where(varies, (rows - self.center) / np.where(varies, self.spread, 1.0), 0.0)


def scaling_of(rows: Matrix) -> Scaling:
    """Return the scaling that the rows themselves have."""
    return Scaling(center=rows.mean(axis=0), spread=rows.std(axis=0))
