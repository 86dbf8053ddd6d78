"""A model laid out for one prompt at a time, which is how a router asks it.

It says what the model says, to the rounding of 32 bits. What does not depend on the prompt is
multiplied beforehand, blocks that do not count are left out, and of the axes only those are
spanned that a doubt or a bandit looks at.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from governor.learning.blocks import BlockScaling, rest_scaling, rest_shares
from governor.learning.likeness import Rows
from governor.learning.linear import Matrix
from governor.learning.surface import Surface
from governor.learning.tier_model import CONTEXT_AXES_MAX, TierModel

_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneForecast:
    """What is expected of one row: a number for each tier, and the row as a bandit sees it."""

    quality: Matrix
    quality_sd: Matrix
    cost: Matrix
    context: Matrix


class OneRow:
    """Forecasts one row of features at a time."""

    def __init__(self, model: TierModel) -> None:
        """Lay out a model."""
        self._model = model
        self._parts = _Reader(model.scaling)
        self._seen = model.doubts.shape[1]
        axes = model.quality.axes
        self._context = min(CONTEXT_AXES_MAX, axes.shape[1])
        looked_at = axes[:, : max(self._seen, self._context)]
        self._quality = _Laid(model.quality, model.scaling, looked_at)
        self._cost = _Laid(model.cost, model.scaling, model.cost.axes[:, :0])
        self._doubts = np.concatenate(list(model.doubts), axis=1)

    def forecast(self, row: Rows) -> OneForecast:
        """Return what is expected of a row."""
        model, parts = self._model, self._parts.of(row)
        values, spanned = self._quality.of(parts)
        logs, _ = self._cost.of(parts)
        seen = spanned[: self._seen]
        turned = (seen @ self._doubts).reshape(-1, self._seen)
        known = np.einsum("ij,ij->i", turned, turned)
        context = np.zeros(CONTEXT_AXES_MAX)
        context[: self._context] = spanned[: self._context]
        return OneForecast(
            quality=model.quality_from(values),
            quality_sd=model.doubt_from(known, seen @ seen),
            cost=model.cost_from(logs),
            context=context,
        )


@dataclass(slots=True, kw_only=True)
class _Parts:
    """A row in its blocks, each at its own scale; of the words only those that are there."""

    meaning: Rows
    held: npt.NDArray[np.intp]
    words: Rows
    rest: Rows


class _Reader:
    """Takes rows apart."""

    def __init__(self, scaling: BlockScaling) -> None:
        widths = scaling.widths
        self._meaning, self._words = widths.meaning, widths.of_words
        self._middle = scaling.middle.astype(np.float32)
        self._rarity = scaling.rarity.astype(np.float32)
        self._center, self._inverse, self._far = rest_scaling(scaling)

    def of(self, row: Rows) -> _Parts:
        words = row[self._words]
        held = np.flatnonzero(words)
        rest = (row[self._words.stop :] - self._center) * self._inverse
        return _Parts(
            meaning=_at_length_one(row[: self._meaning] - self._middle),
            held=held,
            words=_at_length_one(words[held] * self._rarity[held]),
            rest=np.minimum(np.maximum(rest, -self._far), self._far),
        )


class _Laid:
    """A surface, what is asked of a row's likenesses multiplied beforehand."""

    def __init__(self, surface: Surface, scaling: BlockScaling, axes: Rows) -> None:
        widths, shares = scaling.widths, surface.shares
        columns = surface.landmarks.columns
        self._meaning_share, self._words_share = shares.meaning, shares.words
        self._meaning = columns[: widths.meaning] * np.float32(shares.meaning**0.5)
        self._words = columns[widths.of_words] * np.float32(shares.words**0.5)
        self._rest_shares = rest_shares(widths, shares)
        self._rest = columns[widths.of_words.stop :]
        self._half_squares = surface.landmarks.squares * _HALF
        self._levels, self._axes = surface.levels, axes.shape[1]
        whole = surface.axes.astype(np.float64) @ surface.slopes
        self._asked = np.concatenate([axes, whole.astype(np.float32)], axis=1)

    def of(self, parts: _Parts) -> tuple[Matrix, Rows]:
        """Return the values of a row, and the row along the axes that are looked at."""
        rest = parts.rest * self._rest_shares
        near = rest @ self._rest
        own = rest @ rest
        if self._meaning_share:
            near += parts.meaning @ self._meaning
            own += self._meaning_share * (parts.meaning @ parts.meaning)
        if self._words_share:
            near += parts.words @ self._words[parts.held]
            own += self._words_share * (parts.words @ parts.words)
        near -= self._half_squares
        near -= _HALF * own
        likeness = np.exp(np.minimum(near, 0.0, out=near), out=near)
        found = likeness @ self._asked
        return self._levels + found[self._axes :], found[: self._axes]


def _at_length_one(part: Rows) -> Rows:
    length = float(np.sqrt(part @ part))
    return part / np.float32(length) if length else part
