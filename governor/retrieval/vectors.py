"""The meaning of a text as a vector: the mean of what its pieces mean, of length one.

The vectors of the pieces are fixed beforehand (`benchmarks/word_vectors.py` makes those that are
shipped), so a text costs a look-up for each piece and no model runs. What stands in the text is
weighed by the lengths of the vectors: frequent pieces are short. Word order is not seen.
"""

from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from governor.retrieval.wordpiece import WordPieces

Vector = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int8]
Scales = npt.NDArray[np.float32]


class StaticVectors:
    """A vector for each piece of a vocabulary, kept as whole steps and the size of a step."""

    def __init__(self, *, pieces: WordPieces, steps: Steps, scales: Scales) -> None:
        """Take a row of `steps` for each piece and the size of its steps in `scales`."""
        self._pieces = pieces
        self._steps = steps
        self._scales = scales

    @property
    def axes(self) -> int:
        """Return how many numbers a vector has."""
        return int(self._steps.shape[1])

    def embed(self, text: str) -> Vector:
        """Return the vector of a text: of length one, or all zeros where no piece is known.

        It is the same to the last bit in every process and on every machine: the sums are made
        in one order, and the length is summed exactly.
        """
        numbers = self._pieces.numbers_of(text)
        rows = self._steps[numbers].astype(np.float32) * self._scales[numbers, np.newaxis]
        return scaled(rows.sum(axis=0, dtype=np.float32))


def scaled(vector: Vector) -> Vector:
    """Return the vector at length one; one without a length stays as it is."""
    length = sqrt(fsum(np.square(vector, dtype=np.float64).tolist()))
    return vector / np.float32(length) if length else vector
