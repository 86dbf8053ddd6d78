import numpy as np
import pytest

from runtime.router.foretold import foretold_of
from runtime.router.off_policy import RatedDecision
from runtime.router.written import WrittenOption


def rated(number: int, expected: float, score: float, *, model: str | None = "m") -> RatedDecision:
    option = WrittenOption(tier="low", quality=expected, cost_microusd=10.0, propensity=1.0)
    return RatedDecision(
        call_id=f"call_{number}",
        session=f"ses_{number}",
        decided_at_ms=number,
        tier="low",
        options={"low": option},
        features=np.zeros(1, dtype=np.float32),
        price=0.0,
        score=score,
        cost_microusd=10.0,
        shadow_model=None,
        shadow_tier=None,
        model=model,
    )


@pytest.mark.requirement("router.calibration")
def test_forecasts_are_held_against_scores_in_bins() -> None:
    low = [rated(number, 0.12, number % 2) for number in range(40)]
    high = [rated(100 + number, 1.0, 0.9) for number in range(20)]

    found = foretold_of([*low, *high])

    assert [(one.low, one.high, one.came.n) for one in found.bins] == [
        (0.1, 0.2, 40),
        (0.9, 1.0, 20),
    ]
    assert [one.expected for one in found.bins] == pytest.approx([0.12, 1.0])
    assert [one.came.value for one in found.bins] == pytest.approx([0.5, 0.9])
    assert 0.3 < found.bins[0].came.low < 0.4
    assert 0.6 < found.bins[0].came.high < 0.7
    assert found.error == pytest.approx((0.38 * 40 + 0.1 * 20) / 60)


@pytest.mark.requirement("router.calibration")
def test_what_the_rules_chose_was_not_foretold() -> None:
    found = foretold_of([rated(1, 0.5, 1.0, model=None)])

    assert found.shape() == {"n": 0, "unforetold": 1, "error": None, "bins": []}
