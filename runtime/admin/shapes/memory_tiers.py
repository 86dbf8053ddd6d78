"""What the admin API says of how searches of the memory are chosen."""

from math import isfinite

from pydantic import StrictBool

from governor.learning.offpolicy import LikelyValue
from runtime.admin.shapes.fields import Out
from runtime.admin.shapes.memory import OfTenant
from runtime.memory.tiers.learning import TierReport


class PutInForce(OfTenant):
    """Whose searches, and whether to do it without evidence."""

    force: StrictBool = False


class Figure(Out):
    """A value and what holds it nineteen times in twenty; null where nothing is known."""

    value: float
    low: float | None
    high: float | None


class PlanFigures(Out):
    """What a way to choose plans would have earned a search; `gain` is over the usual one."""

    name: str
    is_known: bool
    quality: Figure
    cost_microusd: Figure
    gain: Figure | None


class TiersShown(Out):
    """What is in force for a tenant's searches, by how many that were spoken of it is judged."""

    in_force: bool
    revision: int
    spoken_of: int
    is_better: bool
    ways: list[PlanFigures]


def tiers_shown(report: TierReport) -> TiersShown:
    """Return a report as the API shows it."""
    return TiersShown(
        in_force=report.in_force,
        revision=report.revision,
        spoken_of=report.spoken_of,
        is_better=report.is_better,
        ways=[
            PlanFigures(
                name=one.name,
                is_known=one.is_known,
                quality=_figure(one.quality),
                cost_microusd=_figure(one.cost_microusd),
                gain=None if one.gain is None else _figure(one.gain),
            )
            for one in report.values
        ],
    )


def _figure(estimate: LikelyValue) -> Figure:
    low, high = (
        round(bound, 6) if isfinite(bound) else None for bound in (estimate.low, estimate.high)
    )
    return Figure(value=round(estimate.value, 6), low=low, high=high)
