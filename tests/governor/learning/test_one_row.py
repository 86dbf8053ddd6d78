"""A prompt forecast alone is forecast as it is among others."""

import numpy as np
import pytest

from governor.learning.blocks import Shares, Widths
from governor.learning.likeness import Rows
from governor.learning.one_row import OneRow
from governor.learning.tier_model import CONTEXT_AXES_MAX, Outcomes, TierModel, learned_from

WIDTHS = Widths(meaning=6, words=12, form=4, state=2)


def rows(count: int, *, seed: int) -> Rows:
    chance = np.random.default_rng(seed)
    found = chance.standard_normal((count, WIDTHS.total))
    words = found[:, WIDTHS.of_words]
    words[words < 0.5] = 0.0
    found[0] = 0.0  # a prompt without anything
    found[:, -1] = 3.0  # what never varied
    return found.astype(np.float32)


def learned(shares: Shares, *, is_partial: bool = False) -> TierModel:
    seen = rows(120, seed=1)
    chance = np.random.default_rng(2)
    scores = np.clip(seen[:, :2] * 0.2 + 0.5, 0, 1).astype(np.float64)
    if is_partial:
        scores[::3, 0] = np.nan
    outcomes = Outcomes(
        scores=scores,
        costs=np.exp(chance.standard_normal((120, 2))),
        weights=np.ones((120, 2)),
    )
    return learned_from(seen, outcomes, WIDTHS, seed=0, shares_tried=(shares,)).model


@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize(
    "shares",
    [
        Shares(meaning=1.0, words=1.0, form=0.5, state=0.5),
        Shares(meaning=0.0, words=2.0, form=1.0, state=0.0),
        Shares(meaning=4.0, words=0.0, form=0.0, state=0.0),
    ],
)
def test_a_row_alone_is_forecast_as_among_others(shares: Shares, *, is_partial: bool) -> None:
    model = learned(shares, is_partial=is_partial)
    asked = np.concatenate([rows(20, seed=3), rows(20, seed=4) * 5])

    together = model.forecasts(asked)
    spanned = model.quality.spanned(asked, model.scaling)
    one_row = OneRow(model)
    for at, row in enumerate(asked):
        alone = one_row.forecast(row)
        assert alone.quality == pytest.approx(together.quality[at], abs=1e-4)
        assert alone.quality_sd == pytest.approx(together.quality_sd[at], abs=1e-4)
        assert alone.cost == pytest.approx(together.cost[at], rel=1e-3)
        axes = min(CONTEXT_AXES_MAX, spanned.shape[1])
        assert alone.context[:axes] == pytest.approx(spanned[at, :axes], abs=1e-4)
