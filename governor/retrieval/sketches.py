"""Vectors cut down to a bit for each axis, and those nearest to a question among very many.

The bits are the signs of the vector after a turn that spreads what it says evenly over all axes
(without it most bits would be of axes that matter little). They are compared in two steps: by how
many of them differ, which is quick and rough, and, for the few that are left, with the question's
own numbers in place of its bits. Whoever wants the true order compares the vectors themselves for
those that are returned here.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from governor.retrieval.vectors import Vector

# How many are compared in the second step: a share of all, and never fewer than this.
ROUGH_MIN = 2_048
ROUGH_SHARE = 64
_WORD_BITS = 64
# What is worked on at a time stays in the processor's cache.
_BLOCK = 16_384
_FARTHEST = 255
_GROWTH = 1.5

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.uint8]
Matrix = npt.NDArray[np.float32]


class Sketches:
    """The bits of vectors by their places, from 0 on, in the order they were added in."""

    def __init__(self, *, axes: int) -> None:
        """Take how many axes the vectors have."""
        self._axes = axes
        self._turn = _turn(axes)
        # A row for each word of bits, not for each vector: what is read together lies together.
        self._words: Words = np.zeros((-(-axes // _WORD_BITS), 0), dtype=np.uint64)
        self._total = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return self._total

    @property
    def size_bytes(self) -> int:
        """Return how much memory the bits take."""
        return int(self._words.nbytes)

    def add(self, vectors: Matrix) -> None:
        """Put vectors, one a row, at the next places; one of zeros is far from everything."""
        total = self._total + len(vectors)
        if total > self._words.shape[1]:
            size = max(total, int(self._words.shape[1] * _GROWTH))
            self._words = np.pad(self._words, ((0, 0), (0, size - self._words.shape[1])))
        for begin in range(0, len(vectors), _BLOCK):
            rows = vectors[begin : begin + _BLOCK]
            at = self._total + begin
            self._words[:, at : at + len(rows)] = self._bits(rows @ self._turn)
        self._total = total

    def remove(self, place: int) -> None:
        """Keep nothing of the vector at `place`; whether it counts is for `allowed` to say."""
        self._words[:, place] = 0

    def nearest(self, vector: Vector, *, most: int, allowed: Mask | None = None) -> Places:
        """Return the places of about the `most` nearest, in no order.

        `allowed` says of each place whether it counts.
        """
        # Not `@`: its threads take longer to wake than this takes.
        turned = np.einsum("i,ij->j", vector, self._turn)
        places = self._roughly_near(turned, most=most, allowed=allowed)
        if places.size <= most:
            return places
        rows = np.ascontiguousarray(self._words[:, places].T).view(np.uint8)
        bits = np.unpackbits(rows, axis=1, count=self._axes)
        # Twice the agreement less a constant is the product with the signs: the same order.
        agreement = np.einsum("ij,j->i", bits, turned, dtype=np.float32, casting="same_kind")
        return places[np.argpartition(-agreement, most)[:most]]

    def _roughly_near(self, turned: Vector, *, most: int, allowed: Mask | None) -> Places:
        wanted = max(most, ROUGH_MIN, self._total // ROUGH_SHARE)
        if allowed is not None:
            (places,) = np.nonzero(allowed)
            if places.size <= wanted:
                return places
        distances = self._distances(turned)
        if allowed is not None:
            distances[~allowed] = _FARTHEST
        upto = np.cumsum(np.bincount(distances, minlength=_FARTHEST + 1))
        limit = int(np.searchsorted(upto, wanted))
        near = distances <= min(limit, _FARTHEST - 1) if allowed is not None else distances <= limit
        return np.nonzero(near)[0]

    def _distances(self, turned: Vector) -> Distances:
        """Return how many bits of each differ from the vector's; beyond 255 are 255."""
        asked = self._bits(turned[np.newaxis])[:, 0]
        found = np.empty(self._total, dtype=np.uint8)
        apart = np.empty(_BLOCK, dtype=np.uint64)
        counts = np.empty(_BLOCK, dtype=np.uint8)
        for begin in range(0, self._total, _BLOCK):
            block = found[begin : begin + _BLOCK]
            size = block.size
            block[:] = 0
            for word, bits in zip(self._words, asked, strict=True):
                np.bitwise_xor(word[begin : begin + size], bits, out=apart[:size])
                np.bitwise_count(apart[:size], out=counts[:size])
                np.add(block, np.minimum(counts[:size], _FARTHEST - block), out=block)
        return found

    def _bits(self, turned: Matrix) -> Words:
        """Return the bits of turned vectors: a row for each word, a column for each vector."""
        packed = np.packbits(turned > 0, axis=1)
        missing = self._words.shape[0] * (_WORD_BITS // 8) - packed.shape[1]
        return np.pad(packed, ((0, 0), (0, missing))).view(np.uint64).T


@lru_cache(maxsize=4)
def _turn(axes: int) -> Matrix:
    """Return an orthogonal matrix that mixes all axes, the same one always.

    It is the cosine transform twice over, with the signs of some axes turned round before each:
    one alone would leave a vector with a pattern of waves where it is.
    """
    at = np.arange(axes)
    waves = np.cos(np.pi / axes * np.outer(at + 0.5, at)) * np.sqrt(2 / axes)
    waves[:, 0] /= np.sqrt(2)
    # Bits of squares of odd numbers follow no pattern that vectors would have.
    first = np.where((at * at * 2_654_435_761 >> 15) & 1, 1.0, -1.0)
    second = np.where((at * at * 2_246_822_519 >> 17) & 1, 1.0, -1.0)
    turn = (first[:, np.newaxis] * waves) @ (second[:, np.newaxis] * waves)
    return np.asarray(turn, dtype=np.float32)
