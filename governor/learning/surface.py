"""Something learned over prompts: a value for each tier, smoothed over prompts that are alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.blocks import BlockScaling, Shares
from governor.learning.likeness import Landmarks, Rows, landmarks_of, spanning_axes
from governor.learning.linear import Matrix
from governor.learning.smoothing import Smoothings

CHOOSING_ROWS_MAX = 1_000
STRENGTHS = (1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 150.0, 500.0, 2_000.0)
# Standard errors by which another way must be better than the first: of several that are no
# better, one looks better by one error almost always.
_CAUTION = 3.0
# Rows are taken in parts: the likenesses of all of them at once would take gigabytes.
_ROWS_AT_ONCE = 4_096

Places = npt.NDArray[np.int64]
# How far each row is off, from what was foretold and what it was.
Errors = Callable[[Matrix, Matrix], Matrix]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What was learned: `levels`, and `slopes` along the axes that likeness to landmarks spans."""

    shares: Shares
    strength: float
    landmarks: Landmarks
    axes: Rows
    levels: Matrix
    slopes: Rows

    def spanned(self, rows: Rows, scaling: BlockScaling) -> Rows:
        """Return rows of features along the axes."""
        parts = np.array_split(rows, max(1, -(-len(rows) // _ROWS_AT_ONCE)))
        found = [self.landmarks.likeness(scaling.applied(part, self.shares)) for part in parts]
        return np.concatenate([part @ self.axes for part in found])

    def values(self, spanned: Rows) -> Matrix:
        """Return the values of rows that are given along the axes."""
        return self.levels + (spanned @ self.slopes).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSurface:
    """A surface, and what it would have said of each row had it not seen that row."""

    surface: Surface
    spanned: Rows
    left_out: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a surface may be learned, and what it is judged by."""

    shares: Sequence[Shares]
    errors: Errors
    landmarks_max: int
    axes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    shares: Shares
    strength: float
    errors: Matrix


def learned_surface(
    rows: Rows, targets: Matrix, weights: Matrix, scaling: BlockScaling, ways: Ways, *, seed: int
) -> LearnedSurface:
    """Return what is learned of targets; NaN stands where one is not known."""
    chance = np.random.default_rng(seed)
    sample = np.sort(chance.permutation(len(rows))[:CHOOSING_ROWS_MAX])
    choices = [
        _tried(
            scaling.applied(rows[sample], shares), targets[sample], weights[sample], shares, ways
        )
        for shares in _usable(scaling, ways.shares)
    ]
    choice = _preferred(choices)
    picked = np.sort(chance.permutation(len(rows))[: ways.landmarks_max])
    landmarks = landmarks_of(scaling.applied(rows[picked], choice.shares))
    tiers = targets.shape[1]
    bare = Surface(
        shares=choice.shares,
        strength=choice.strength,
        landmarks=landmarks,
        axes=_packed(spanning_axes(landmarks, axes_max=ways.axes_max)),
        levels=np.zeros(tiers),
        slopes=np.zeros((0, tiers), dtype=np.float32),
    )
    spanned = bare.spanned(rows, scaling)
    smoothings = Smoothings(spanned.astype(np.float64), targets, weights)
    fits = [smoothings.fit(tier, choice.strength) for tier in range(tiers)]
    surface = Surface(
        shares=bare.shares,
        strength=bare.strength,
        landmarks=landmarks,
        axes=bare.axes,
        levels=np.array([fit.level[0] for fit in fits]),
        slopes=_packed(np.concatenate([fit.slopes for fit in fits], axis=1)),
    )
    left_out = smoothings.left_out(choice.strength)
    return LearnedSurface(surface=surface, spanned=spanned, left_out=left_out)


def _usable(scaling: BlockScaling, tried: Sequence[Shares]) -> list[Shares]:
    """Return the shares to try: no two that come to the same where a block never varies."""
    has_meaning = bool(scaling.middle.any())
    has_state = bool((scaling.state.spread > 0).any())
    found: dict[Shares, None] = {}
    for shares in tried:
        meaning = shares.meaning if has_meaning else 0.0
        words = shares.words if scaling.rarity.any() else 0.0
        state = shares.state if has_state else 0.0
        found[Shares(meaning=meaning, words=words, form=shares.form, state=state)] = None
    return list(found)


def _tried(scaled: Rows, targets: Matrix, weights: Matrix, shares: Shares, ways: Ways) -> _Choice:
    """Return the best strength under these shares, and how far it is off."""
    landmarks = landmarks_of(scaled)
    axes = spanning_axes(landmarks, axes_max=ways.axes_max)
    spanned = landmarks.likeness(scaled).astype(np.float64) @ axes
    smoothings = Smoothings(spanned, targets, weights)
    errors = [ways.errors(smoothings.left_out(strength), targets) for strength in STRENGTHS]
    best = int(np.argmin([each.mean() for each in errors]))
    return _Choice(shares=shares, strength=STRENGTHS[best], errors=errors[best])


def _preferred(choices: Sequence[_Choice]) -> _Choice:
    """Return the first choice, or the best of those that are better by more than chance.

    The first is what serves most prompts well. A choice by error alone follows the noise of a
    thousand rows, and costs more than it brings.
    """
    first = choices[0]
    found, least = first, 0.0
    for choice in choices[1:]:
        gain = first.errors - choice.errors
        surely = float(gain.mean() - _CAUTION * gain.std() / len(gain) ** 0.5)
        if surely > least:
            found, least = choice, surely
    return found


def _packed(values: Matrix) -> Rows:
    """Return values in half the bytes, row behind row: as a file has them."""
    return values.astype(np.float32, order="C")
