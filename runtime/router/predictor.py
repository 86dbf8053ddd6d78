"""What each tier would make of a prompt: its quality, its cost and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from governor.learning.likeness import Rows
from governor.learning.linear import Matrix
from governor.learning.one_row import OneRow
from governor.learning.tier_model import CONTEXT_AXES_MAX, Outcomes, TierModel, learned_from
from governor.retrieval.vectors import StaticVectors
from runtime.router.features import NO_STATE, PromptReader, SessionStanding

# More rows than these are drawn from by lot: learning takes memory and time for every row.
ROWS_MAX = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """What became of one prompt in the tiers that answered it.

    `scores` and `costs_microusd` hold only the tiers of which they are known: all of them in
    recorded outcomes, usually one in the log of a router. `weights` counts a tier's outcome more
    or less often than once, as by its inverse propensity. `features` stand for text and state
    where those were read before and not kept.
    """

    text: str
    scores: Mapping[str, float]
    costs_microusd: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)
    state: SessionStanding = NO_STATE
    features: Rows | None = None


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
class Prediction:
    """What is expected of every tier for one prompt, with the prompt as a bandit sees it.

    `context` has `context_axes` numbers, those that say most of the prompt first; it has no
    constant among them.
    """

    tiers: Mapping[str, TierForecast]
    context: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class TierInterval:
    """Between what the score of one answer, and its cost, lie nine times in ten."""

    score: tuple[float, float]
    cost_microusd: tuple[float, float]


class RouterModel:
    """A fitted router: forecasts for any text, without fitting anew."""

    context_axes = CONTEXT_AXES_MAX

    def __init__(
        self,
        *,
        tiers: Sequence[str],
        fitted_rows: int,
        learned: TierModel,
        vectors: StaticVectors | None,
    ) -> None:
        """Take what was learned, and the word vectors that it was learned with."""
        self.tiers = tuple(tiers)
        self.fitted_rows = fitted_rows
        self.learned = learned
        self._one_row = OneRow(learned)
        self._reader = PromptReader(vectors)
        assert self._reader.widths == learned.scaling.widths, "learned with other features"

    def predict(self, text: str, state: SessionStanding = NO_STATE) -> Prediction:
        """Return what each tier would make of a prompt."""
        return self.forecast(self._reader.read(text, state))

    def forecast(self, features: Rows) -> Prediction:
        """Return what each tier would make of a prompt that was read before.

        Raises:
            ValueError: it was read in another way than the model has learned.
        """
        if features.shape != (self._reader.widths.total,):
            raise ValueError("the features are not those that the model has learned")
        found = self._one_row.forecast(features)
        of_each = zip(
            self.tiers,
            found.quality.tolist(),
            found.quality_sd.tolist(),
            found.cost.tolist(),
            strict=True,
        )
        tiers = {
            tier: TierForecast(quality=quality, quality_sd=doubt, cost_microusd=cost)
            for tier, quality, doubt, cost in of_each
        }
        return Prediction(tiers=tiers, context=found.context)

    def intervals(self, forecast: Prediction) -> Mapping[str, TierInterval]:
        """Return how far single answers lie from what is forecast."""
        found = {}
        calibration = self.learned.calibration
        of_tiers = [forecast.tiers[tier] for tier in self.tiers]
        low, high = calibration.within(np.array([one.quality for one in of_tiers]))
        for at, tier in enumerate(self.tiers):
            cost = of_tiers[at].cost_microusd
            found[tier] = TierInterval(
                score=(float(low[at]), float(high[at])),
                cost_microusd=(
                    cost * float(calibration.cost_low[at]),
                    cost * float(calibration.cost_high[at]),
                ),
            )
        return found


def fit(
    rows: Sequence[OutcomeRow],
    *,
    tiers: Sequence[str],
    vectors: StaticVectors | None,
    seed: int = 0,
) -> RouterModel:
    """Return a model of these outcomes; how it learns is chosen by folds within the rows.

    Raises:
        TooFewOutcomesError: a tier has fewer than `tier_model.ROWS_MIN` outcomes.
    """
    if len(rows) > ROWS_MAX:
        lot = np.random.default_rng(seed).permutation(len(rows))[:ROWS_MAX]
        rows = [rows[at] for at in np.sort(lot)]
    reader = PromptReader(vectors)
    read = np.empty((len(rows), reader.widths.total), dtype=np.float32)
    for at, row in enumerate(rows):
        read[at] = reader.read(row.text, row.state) if row.features is None else row.features
    learned = learned_from(read, _outcomes(rows, tiers), reader.widths, seed=seed)
    return RouterModel(tiers=tiers, fitted_rows=len(rows), learned=learned.model, vectors=vectors)


def _outcomes(rows: Sequence[OutcomeRow], tiers: Sequence[str]) -> Outcomes:
    unknown = float("nan")
    return Outcomes(
        scores=_table([[row.scores.get(tier, unknown) for tier in tiers] for row in rows], tiers),
        costs=_table(
            [[row.costs_microusd.get(tier, unknown) for tier in tiers] for row in rows], tiers
        ),
        weights=_table([[row.weights.get(tier, 1.0) for tier in tiers] for row in rows], tiers),
    )


def _table(values: list[list[float]], tiers: Sequence[str]) -> Matrix:
    return np.array(values, dtype=np.float64).reshape(len(values), len(tiers))
