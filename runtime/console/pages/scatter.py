"""Where the marks of a plot go, in hundredths of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

from runtime.console.words import amount_words

# Of the plot; what is left of it holds the words beside the axes.
_LEFT, _RIGHT, _TOP, _BOTTOM = 12.0, 96.0, 4.0, 88.0
# From such a ratio on, costs stand by their size: the cheap ones would be one heap.
_LOG_FROM = 20.0
_TICKS = 4

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A line of the grid with its words."""

    at: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point with its intervals; `name` stands beside it, `kind` is how it is drawn."""

    name: str
    kind: str
    x: float
    y: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot; `edge` joins the marks that none is better than."""

    marks: tuple[Mark, ...]
    columns: tuple[Tick, ...]
    rows: tuple[Tick, ...]
    edge: tuple[tuple[Mark, Mark], ...] = ()


def tier_plot(tiers: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Return quality against cost of the tiers of which both are known; None where none is."""
    known = [tier for tier in tiers if tier["quality"] and tier["cost_microusd"]]
    if not known:
        return None
    costs = [value for tier in known for value in _spread(tier["cost_microusd"])]
    across, columns = _money_axis(costs)
    up, rows = _share_axis([value for tier in known for value in _spread(tier["quality"])])
    marks = tuple(
        _mark(
            tier["tier"],
            tier["standing"],
            (tier["cost_microusd"], across),
            (tier["quality"], up),
        )
        for tier in known
    )
    best = sorted((mark for mark in marks if mark.kind == "efficient"), key=lambda mark: mark.x)
    edge = tuple(pairwise(best))
    return Plot(marks=marks, columns=columns, rows=rows, edge=edge)


def calibration_plot(bins: Sequence[Mapping[str, Any]]) -> Plot | None:
    """Return what came against what was expected, both from 0 to 1; None where nothing was."""
    if not bins:
        return None
    across = _linear(0.0, 1.0, _LEFT, _RIGHT)
    up = _linear(0.0, 1.0, _BOTTOM, _TOP)
    told = [number / _TICKS for number in range(_TICKS + 1)]
    return Plot(
        marks=tuple(
            _mark(
                "",
                "efficient",
                ({"value": one["expected"], "ci95": [None, None]}, across),
                (one["came"], up),
            )
            for one in bins
        ),
        columns=tuple(Tick(at=across(value), told=f"{value:g}") for value in told),
        rows=tuple(Tick(at=up(value), told=f"{value:g}") for value in told),
    )


def _mark(
    name: str,
    kind: str,
    across: tuple[Mapping[str, Any], Scale],
    up: tuple[Mapping[str, Any], Scale],
) -> Mark:
    x_low, x_value, x_high = (across[1](value) for value in _spread(across[0]))
    y_low, y_value, y_high = (up[1](value) for value in _spread(up[0]))
    return Mark(
        name=name,
        kind=kind,
        x=x_value,
        y=y_value,
        x_low=x_low,
        x_high=x_high,
        y_low=y_low,
        y_high=y_high,
    )


def _spread(estimate: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return from where to where a figure lies, with itself; without an interval, itself."""
    value = float(estimate["value"])
    low, high = estimate["ci95"]
    return (value if low is None else low, value, value if high is None else high)


def _money_axis(costs: Sequence[float]) -> tuple[Scale, tuple[Tick, ...]]:
    least, most = max(1.0, min(costs)), max(1.0, *costs)
    if most / least < _LOG_FROM:
        step = max(1.0, _step(most / _TICKS))
        end = step * ceil(most / step)
        scale = _linear(0.0, end, _LEFT, _RIGHT)
        values = [step * number for number in range(round(end / step) + 1)]
    else:
        low, high = floor(log10(least)), ceil(log10(most))
        by_size = _linear(float(low), float(high), _LEFT, _RIGHT)
        scale = _of_log(by_size)
        values = [10.0**power for power in range(low, high + 1)]
    return scale, tuple(
        Tick(at=scale(value), told=amount_words(round(value), "cost_microusd")) for value in values
    )


def _share_axis(values: Sequence[float]) -> tuple[Scale, tuple[Tick, ...]]:
    low = min(0.9, max(0.0, floor(min(values) * 10) / 10))
    high = max(low + 0.1, min(1.0, ceil(max(values) * 10) / 10))
    scale = _linear(low, high, _BOTTOM, _TOP)
    count = round((high - low) * 10)
    every = 1 if count <= _TICKS + 1 else 2
    told = [low + number / 10 for number in range(0, count + 1, every)]
    return scale, tuple(Tick(at=scale(value), told=f"{value:.1f}") for value in told)


def _step(about: float) -> float:
    """Return the next round number that is no less."""
    ten = 10.0 ** floor(log10(about))
    return next(ten * factor for factor in (1, 2, 5, 10) if ten * factor >= about)


def _linear(low: float, high: float, first: float, last: float) -> Scale:
    """Return what places a value between two places; what lies beyond is put at the end."""

    def scale(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(first + share * (last - first), 2)

    return scale


def _of_log(by_size: Scale) -> Scale:
    return lambda value: by_size(log10(max(1.0, value)))
