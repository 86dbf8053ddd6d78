"""A fitted router foretells what each tier would make of a text that it never saw."""

import numpy as np
import pytest

from governor.errors import TooFewOutcomesError
from runtime.router import predictor
from runtime.router.features import SessionStanding
from runtime.router.predictor import OutcomeRow, fit
from runtime.word_vectors import word_vectors
from tests.runtime.router.outcome_rows import rows

HARD, EASY = "castle integral river meadow", "castle greeting river meadow"


@pytest.mark.requirement("router.forecasts")
def test_a_text_that_was_never_seen_is_foretold_in_quality_and_cost() -> None:
    model = fit(rows(300), tiers=("low", "high"), vectors=word_vectors())

    hard, easy = model.predict(HARD).tiers, model.predict(EASY).tiers

    assert hard["low"].quality < 0.3
    assert easy["low"].quality > 0.7
    assert hard["high"].quality == easy["high"].quality == 1.0
    assert hard["high"].cost_microusd > 2 * easy["high"].cost_microusd
    assert hard["low"].cost_microusd == pytest.approx(10.0)


def test_what_lies_far_from_all_that_was_seen_is_in_doubt() -> None:
    model = fit(rows(300), tiers=("low", "high"), vectors=word_vectors())

    near = model.predict(HARD).tiers["low"]
    far = model.predict("def main():\n    return 17 * 4 # ???").tiers["low"]

    assert 0 < near.quality_sd < far.quality_sd


def test_outcomes_of_one_tier_each_are_enough() -> None:
    whole = rows(400)
    partial = [
        OutcomeRow(
            text=row.text,
            scores={tier: row.scores[tier]},
            costs_microusd={tier: row.costs_microusd[tier]},
            weights={tier: 2.0},
        )
        for row, tier in zip(whole, ["low", "high"] * 200, strict=True)
    ]

    model = fit(partial, tiers=("low", "high"), vectors=None)

    assert model.predict(HARD).tiers["low"].quality < 0.4
    assert model.predict(EASY).tiers["low"].quality > 0.6


def test_the_state_of_a_session_counts_where_it_decides() -> None:
    found = []
    for row in rows(200):
        for errors in (0, 9):
            score = 0.0 if errors else 1.0
            found.append(
                OutcomeRow(
                    text=row.text,
                    scores={"low": score, "high": 1.0},
                    costs_microusd=row.costs_microusd,
                    state=SessionStanding(turn=3, errors=errors),
                )
            )

    model = fit(found, tiers=("low", "high"), vectors=None)

    calm = model.predict(HARD, SessionStanding(turn=3)).tiers["low"].quality
    failing = model.predict(HARD, SessionStanding(turn=3, errors=9)).tiers["low"].quality
    assert failing < 0.3
    assert calm > 0.7


def test_the_same_outcomes_make_the_same_model() -> None:
    first = fit(rows(120), tiers=("low", "high"), vectors=None).predict(HARD)
    again = fit(rows(120), tiers=("low", "high"), vectors=None).predict(HARD)

    assert first.tiers == again.tiers
    assert np.array_equal(first.context, again.context)


@pytest.mark.parametrize("text", ["", "   ", "\x00", "é" * 100_000, "1" * 50_000, "\ud800"])
def test_any_text_is_foretold(text: str) -> None:
    model = fit(rows(60), tiers=("low", "high"), vectors=word_vectors())

    found = model.predict(text).tiers["low"]

    assert 0.0 <= found.quality <= 1.0
    assert np.isfinite(found.quality_sd)


def test_too_few_outcomes_are_refused() -> None:
    with pytest.raises(TooFewOutcomesError):
        fit(rows(9), tiers=("low", "high"), vectors=None)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_outcomes_that_never_differ_are_foretold_as_they_are(value: float) -> None:
    same = [
        OutcomeRow(text=row.text, scores={"low": value}, costs_microusd={"low": 0.0})
        for row in rows(50)
    ]

    found = fit(same, tiers=("low",), vectors=None).predict(HARD).tiers["low"]

    assert (found.quality, found.cost_microusd) == (value, 0.0)


def test_of_more_rows_than_can_be_learned_a_lot_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predictor, "ROWS_MAX", 80)

    model = fit(rows(200), tiers=("low", "high"), vectors=None)

    assert model.fitted_rows == 80
    assert model.predict(HARD).tiers["low"].quality < model.predict(EASY).tiers["low"].quality
