"""The table of `flyball.toml` about how `auto` chooses a tier and learns from what came of it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from governor.learning.choice import Objective
from governor.learning.online import OnlineTerms
from runtime.configuration.table import Flag, Name, Table
from runtime.router.terms import RouterMode, RouterTerms

_MICRO = 1_000_000
_ANSWER_USD = 1.0
_DAY_MS = 86_400_000
_Dollars = Annotated[float, Field(strict=True, gt=0, le=1_000_000)]
_Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]


class RouterTable(Table):
    """How `auto` chooses: by nobody's log, by the tier rules, or by what was learned."""

    mode: Literal["off", "rules", "learned"] = "rules"
    objective: Literal["value", "target", "rate"] = "value"
    # What a perfect answer is worth: a tier that costs so much more must be that much better, and
    # so must another round. Left out, rounds take it from the tiers' prices.
    answer_usd: _Dollars | None = None
    target: _Fraction = 0.8
    rate_usd_per_hour: _Dollars | None = None
    explore_percent: Annotated[float, Field(strict=True, ge=0, le=50)] = 5.0
    # Agents and task classes, by their names or patterns, that nothing is tried out on.
    no_exploration_for: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    shadow: Flag = True
    half_life_hours: Annotated[int, Field(strict=True, ge=1, le=87_600)] = 336
    influence_per_day: Annotated[float, Field(strict=True, gt=0, le=1_000_000)] = 50.0
    trusted_reporters: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    retention_days: Annotated[int, Field(strict=True, ge=1, le=3_650)] = 30

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.objective == "rate" and self.rate_usd_per_hour is None:
            raise ValueError('rate_usd_per_hour: objective = "rate" needs it; say how much')
        if self.objective != "rate" and self.rate_usd_per_hour is not None:
            raise ValueError('rate_usd_per_hour: this is for objective = "rate"; remove it')
        return self


def router_terms_of(table: RouterTable) -> RouterTerms:
    """Return the terms of the file."""
    rate = table.rate_usd_per_hour
    return RouterTerms(
        mode=RouterMode(table.mode),
        objective=Objective(table.objective),
        answer_microusd=(_ANSWER_USD if table.answer_usd is None else table.answer_usd) * _MICRO,
        target=table.target,
        rate_microusd_per_hour=None if rate is None else rate * _MICRO,
        explore_share=table.explore_percent / 100,
        has_shadow=table.shadow,
        no_exploration_for=table.no_exploration_for,
        online=OnlineTerms(
            half_life_hours=float(table.half_life_hours),
            influence_per_day=table.influence_per_day,
        ),
        trusted_reporters=frozenset(table.trusted_reporters),
        retention_ms=table.retention_days * _DAY_MS,
    )
