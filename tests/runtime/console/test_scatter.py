from typing import Any

import pytest

from runtime.console.pages.scatter import calibration_plot, tier_plot


def estimate(value: float, half: float) -> dict[str, Any]:
    return {"value": value, "ci95": [value - half, value + half]}


def tier(name: str, standing: str, *, cost: float, quality: float) -> dict[str, Any]:
    return {
        "tier": name,
        "standing": standing,
        "cost_microusd": estimate(cost, cost / 10),
        "quality": estimate(quality, 0.02),
    }


UNKNOWN = {"tier": "new", "standing": "unknown", "cost_microusd": None, "quality": None}


@pytest.mark.requirement("router-page.story")
@pytest.mark.parametrize("dearest", [100.0, 400.0, 90_000.0])
def test_better_tiers_stand_higher_dearer_ones_to_the_right_and_the_edge_passes_the_dominated(
    dearest: float,
) -> None:
    plot = tier_plot(
        [
            tier("high", "efficient", cost=dearest, quality=1.0),
            tier("low", "efficient", cost=50.0, quality=0.5),
            tier("bad", "dominated", cost=60.0, quality=0.4),
            UNKNOWN,
        ]
    )

    assert plot is not None
    high, low, bad = plot.marks
    assert 12 <= low.x < bad.x < high.x <= 96
    assert 4 <= high.y < low.y < bad.y <= 88
    assert all(mark.x_low < mark.x < mark.x_high for mark in plot.marks)
    assert low.y_high < low.y < low.y_low
    assert [(one.name, other.name) for one, other in plot.edge] == [("low", "high")]
    assert len({tick.told for tick in plot.columns}) == len(plot.columns) >= 2


@pytest.mark.requirement("router-page.story")
def test_a_single_tier_that_is_free_and_perfect_has_a_place() -> None:
    plot = tier_plot([tier("only", "efficient", cost=0.0, quality=1.0)])

    assert plot is not None
    assert (plot.marks[0].x, plot.marks[0].y) == (12.0, 4.0)
    assert [tick.told for tick in plot.rows] == ["0.9", "1.0"]


@pytest.mark.requirement("router-page.empty")
def test_where_nothing_is_known_there_is_no_plot() -> None:
    assert tier_plot([UNKNOWN]) is None
    assert calibration_plot([]) is None


@pytest.mark.requirement("router-page.story")
def test_what_comes_true_stands_on_the_diagonal() -> None:
    bins = [{"expected": 0.25, "came": {"value": 0.25, "ci95": [None, None]}}]

    plot = calibration_plot(bins)

    assert plot is not None
    (mark,) = plot.marks
    assert ((mark.x - 12) / 84, (88 - mark.y) / 84) == pytest.approx((0.25, 0.25))
