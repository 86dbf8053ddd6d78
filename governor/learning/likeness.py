"""How alike rows are to landmarks, and the few axes that this spans.

Two rows are alike by a Gaussian of their distance. As the squares of distances add up, rows made
of several blocks (meaning, words, form) are alike by the *product* of what their blocks are, and a
block's scale is its share in the decision. Rows are described by landmarks among the rows that
were learned from (Williams and Seeger's Nystroem method), turned so that in the axes that are
left a plain product of rows is their likeness: what is linear there is a kernel machine outside.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.linear import Matrix

Rows = npt.NDArray[np.float32]
_SHARE_MIN = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmarks:
    """Rows that others are compared with: a column for each, and the square of its length."""

    columns: Rows
    squares: Rows

    def likeness(self, rows: Rows) -> Rows:
        """Return how alike each row is to each landmark, from 0 to 1."""
        own = np.einsum("ij,ij->i", rows, rows)
        distances = own[:, None] + self.squares - 2.0 * (rows @ self.columns)
        return _near(distances)


def _near(distances: Rows) -> Rows:
    found: Rows = np.exp(-0.5 * np.maximum(distances, 0.0), dtype=np.float32)
    return found


def landmarks_of(rows: Rows) -> Landmarks:
    """Return these rows as landmarks."""
    return Landmarks(
        columns=np.ascontiguousarray(rows.T), squares=np.einsum("ij,ij->i", rows, rows)
    )


def spanning_axes(landmarks: Landmarks, *, axes_max: int) -> Matrix:
    """Return what turns likenesses to landmarks into axes, those that say most first."""
    likeness = landmarks.likeness(np.ascontiguousarray(landmarks.columns.T)).astype(np.float64)
    shares, turn = np.linalg.eigh((likeness + likeness.T) / 2)
    kept = min(axes_max, int((shares > _SHARE_MIN * shares[-1]).sum()))
    best = np.arange(len(shares) - 1, len(shares) - 1 - kept, -1)
    found: Matrix = turn[:, best] / np.sqrt(shares[best])
    return found
