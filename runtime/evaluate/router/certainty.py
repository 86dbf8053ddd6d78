"""Whether forecasts are what they claim: how far they are off, and what intervals hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from governor.learning.calibration import COVERAGE, calibration_error
from governor.learning.linear import Matrix
from governor.learning.tier_model import Forecasts, TierModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What is claimed of rows in each tier: expected quality, and intervals for score and cost."""

    raw: Matrix
    quality: Matrix
    score_low: Matrix
    score_high: Matrix
    cost_low: Matrix
    cost_high: Matrix


def claimed(model: TierModel, found: Forecasts) -> Claimed:
    """Return what a model claims with its forecasts."""
    calibration = model.calibration
    low, high = calibration.within(found.quality)
    return Claimed(
        raw=found.raw,
        quality=found.quality,
        score_low=low,
        score_high=high,
        cost_low=found.cost * calibration.cost_low,
        cost_high=found.cost * calibration.cost_high,
    )


def certainty_of(
    tiers: Sequence[str], judged: Sequence[tuple[Claimed, Matrix, Matrix]]
) -> dict[str, Any]:
    """Return how what was claimed compares with the scores and costs that came true."""
    return {
        "stated": COVERAGE,
        "tiers": [{"name": name, **_of_tier(judged, at)} for at, name in enumerate(tiers)],
    }


def _of_tier(judged: Sequence[tuple[Claimed, Matrix, Matrix]], at: int) -> dict[str, float | None]:
    scores = np.concatenate([true[:, at] for _, true, _ in judged])
    costs = np.concatenate([paid[:, at] for _, _, paid in judged])
    claims = {
        name: np.concatenate([getattr(claim, name)[:, at] for claim, _, _ in judged])
        for name in ("raw", "quality", "score_low", "score_high", "cost_low", "cost_high")
    }
    low, high = claims["cost_low"], claims["cost_high"]
    # Rounding of the last bit does not make a cost that never varies a surprise.
    slack = 1e-6 * costs
    is_paid = low > 0
    return {
        "calibration_error": calibration_error(claims["quality"], scores),
        "calibration_error_raw": calibration_error(claims["raw"], scores),
        "brier": float(((claims["quality"] - scores) ** 2).mean()),
        "score_coverage": _share(
            (claims["score_low"] <= scores) & (scores <= claims["score_high"])
        ),
        "score_width": float((claims["score_high"] - claims["score_low"]).mean()),
        "cost_coverage": _share((low <= costs + slack) & (costs - slack <= high)),
        "cost_ratio": float(np.median(high[is_paid] / low[is_paid])) if is_paid.any() else None,
    }


def _share(holds: npt.NDArray[np.bool_]) -> float:
    return float(holds.mean())
