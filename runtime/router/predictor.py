"""What each tier would make of a prompt: its quality, its cost and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from governor.retrieval.vectors import StaticVectors
from runtime.router.features import NO_STATE, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """What became of one prompt in the tiers that answered it.

    `scores` and `costs_microusd` hold only the tiers of which they are known: all of them in
    recorded outcomes, usually one in the log of a router. `weights` counts a tier's outcome more
    or less often than once, as by its inverse propensity.
    """

    text: str
    scores: Mapping[str, float]
    costs_microusd: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)
    state: SessionState = NO_STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class TierForecast:
    """What is expected of one tier for one prompt.

    `quality_sd` is how far the expected quality itself may be off, not how far one answer
    scatters. The cost is an expectation for choosing by, never one that is charged.
    """

    quality: float
    quality_sd: float
    cost_microusd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected of every tier for one prompt, with the prompt as a bandit sees it."""

    tiers: Mapping[str, TierForecast]
    context: npt.NDArray[np.float64]


class RouterModel:
    """A fitted router: forecasts for any text, without fitting anew."""

    tiers: tuple[str, ...]
    fitted_rows: int
    context_axes: int

    def predict(self, text: str, state: SessionState = NO_STATE) -> Forecast:
        """Return what each tier would make of a prompt."""
        raise NotImplementedError


def fit(
    rows: Sequence[OutcomeRow],
    *,
    tiers: Sequence[str],
    vectors: StaticVectors | None,
    seed: int = 0,
) -> RouterModel:
    """Return a model of these outcomes; hyper-parameters are chosen by folds within the rows.

    Raises:
        TooFewOutcomesError: a tier has fewer than `ROWS_MIN` outcomes.
    """
    raise NotImplementedError
