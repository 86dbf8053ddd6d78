"""Which tiers are worth having, and what is not yet known of them."""

from governor.learning.offpolicy import LikelyValue
from governor.learning.pareto import Figures, Standing, TierEvidence, judged


def estimate(value: float, half: float) -> LikelyValue:
    return LikelyValue(value=value, low=value - half, high=value + half, n=100, effective=100.0)


def tier(name: str, quality: float, cost: float, *, half: float = 0.01) -> TierEvidence:
    figures = Figures(quality=estimate(quality, half), cost_microusd=estimate(cost, 1.0))
    return TierEvidence(tier=name, n=100, figures=figures)


def standings(*tiers: TierEvidence) -> dict[str, tuple[Standing, str | None]]:
    return {one.evidence.tier: (one.standing, one.by) for one in judged(tiers)}


def test_a_tier_that_is_worse_and_dearer_without_doubt_is_dominated_by_the_best_such() -> None:
    found = standings(tier("low", 0.7, 100), tier("mid", 0.6, 500), tier("high", 0.9, 400))

    assert found == {
        "low": (Standing.EFFICIENT, None),
        "mid": (Standing.DOMINATED, "high"),
        "high": (Standing.EFFICIENT, None),
    }


def test_intervals_that_overlap_leave_a_doubt() -> None:
    found = standings(tier("low", 0.70, 100, half=0.2), tier("mid", 0.65, 500, half=0.2))

    assert found["mid"] == (Standing.DOUBTFUL, "low")


def test_a_tier_that_was_hardly_tried_is_neither_praised_nor_blamed() -> None:
    found = standings(tier("low", 0.7, 100), TierEvidence(tier="new", n=3, figures=None))

    assert found["new"] == (Standing.UNKNOWN, None)
    assert found["low"] == (Standing.EFFICIENT, None)


def test_of_two_that_are_the_same_none_is_dominated() -> None:
    found = standings(tier("a", 0.5, 100), tier("b", 0.5, 100))

    assert {standing for standing, _ in found.values()} == {Standing.EFFICIENT}
