"""What prompts are described by, in blocks, and how each block is brought to a common size."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from governor.learning.likeness import Rows
from governor.learning.linear import SPREAD_MIN, Matrix, Scaling, scaling_of

_FAR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """How many columns each block of a row has, in this order."""

    meaning: int
    words: int
    form: int
    state: int

    @property
    def of_words(self) -> "slice[int, int, None]":
        """Return where the words are in a row."""
        return slice(self.meaning, self.meaning + self.words)

    @property
    def total(self) -> int:
        """Return how wide a row is."""
        return self.meaning + self.words + self.form + self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What each block counts when rows are compared; a block at zero is not looked at."""

    meaning: float
    words: float
    form: float
    state: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScaling:
    """What makes rows comparable: learned from rows alone, without what became of them.

    Meanings are turned about their middle and set to length one, words weighed by how rare they
    are and set to length one, form and state measured in their own spreads.
    """

    widths: Widths
    middle: Matrix
    rarity: Matrix
    form: Scaling
    state: Scaling

    def applied(self, rows: Rows, shares: Shares) -> Rows:
        """Return the rows as they are compared under these shares."""
        widths = self.widths
        ends = np.cumsum([widths.meaning, widths.words, widths.form])
        meaning, words, form, state = np.split(rows.astype(np.float64), ends, axis=1)
        parts = [
            _of_length_one(meaning - self.middle) * shares.meaning**0.5,
            _of_length_one(words * self.rarity) * shares.words**0.5,
            _near(self.form.applied(form), shares.form),
            _near(self.state.applied(state), shares.state),
        ]
        return np.concatenate(parts, axis=1).astype(np.float32)


def block_scaling_of(rows: Rows, widths: Widths) -> BlockScaling:
    """Return the scaling that these rows have."""
    ends = np.cumsum([widths.meaning, widths.words, widths.form])
    meaning, words, form, state = np.split(rows.astype(np.float64), ends, axis=1)
    return BlockScaling(
        widths=widths,
        middle=meaning.mean(axis=0),
        rarity=np.log((len(rows) + 1.0) / ((words > 0).sum(axis=0) + 1.0)),
        form=scaling_of(form),
        state=scaling_of(state),
    )


def rest_scaling(scaling: BlockScaling) -> tuple[Rows, Rows, float]:
    """Return what brings form and state to a common size: less, times, and at most so far out."""
    center = np.concatenate([scaling.form.center, scaling.state.center])
    spread = np.concatenate([scaling.form.spread, scaling.state.spread])
    varies = spread > SPREAD_MIN
    inverse = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
    return center.astype(np.float32), inverse.astype(np.float32), _FAR


def rest_shares(widths: Widths, shares: Shares) -> Rows:
    """Return what each column of form and of state is scaled by under these shares."""
    form, state = _scale(widths.form, shares.form), _scale(widths.state, shares.state)
    return np.repeat([form, state], [widths.form, widths.state]).astype(np.float32)


def _near(rows: Matrix, share: float) -> Matrix:
    """Return the rows on the scale of their share, what is far out drawn in."""
    found: Matrix = np.clip(rows, -_FAR, _FAR) * _scale(rows.shape[1], share)
    return found


def _scale(columns: int, share: float) -> float:
    return sqrt(share / max(1, columns))


def _of_length_one(rows: Matrix) -> Matrix:
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    found: Matrix = rows / np.where(lengths > 0, lengths, 1.0)
    return found
