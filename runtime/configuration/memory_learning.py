"""The tables of `flyball.toml` about cases, playbooks and work in quiet hours."""

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from governor.experience.cases import CaseTerms
from governor.experience.guidance import GuidanceTerms
from runtime.configuration.table import Amount, Flag, Name, Positive, Table

_Share = Annotated[float, Field(strict=True, ge=0, le=1)]
_Count = Annotated[int, Field(strict=True, ge=1, le=1_000)]
_HOUR_MS = 3_600_000


class CasesTable(Table):
    """How past cases are chosen, and from where on a class of tasks is guided more or less."""

    explore_share: _Share = 0.03
    half_life_hours: Annotated[float, Field(strict=True, ge=1, le=87_600)] = 720.0
    retention_days: Annotated[int, Field(strict=True, ge=1, le=3_650)] = 180
    none_from: _Share = 0.8
    hints_from: _Share = 0.6
    checks_below: _Share = 0.5
    ask_below: _Share = 0.2

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.ask_below <= self.checks_below <= self.hints_from <= self.none_from:
            raise ValueError(
                "ask_below, checks_below, hints_from and none_from: each is at most the next one"
            )
        return self

    def case_terms(self) -> CaseTerms:
        """Return how cases are chosen."""
        return CaseTerms(explore=self.explore_share, half_life_hours=self.half_life_hours)

    def guidance_terms(self) -> GuidanceTerms:
        """Return from where on a class is guided more or less."""
        return GuidanceTerms(
            none_from=self.none_from,
            hints_from=self.hints_from,
            checks_below=self.checks_below,
            ask_below=self.ask_below,
        )


class PlaybooksTable(Table):
    """How playbooks are written: by rule, and by a model where a tier is named."""

    tier: Name | None = None
    # Off: each agent has playbooks of its own, and reads those of the tenant beside them.
    shared: Flag = False
    bullets_per_reflection: Annotated[int, Field(strict=True, ge=1, le=50)] = 8
    output_tokens_max: Annotated[int, Field(strict=True, ge=64, le=16_000)] = 1_000


class SleepTable(Table):
    """What the house does for the memory while nobody asks anything of it."""

    enabled: Flag = False
    idle_s: Annotated[int, Field(strict=True, ge=1, le=86_400)] = 60
    every_s: Annotated[int, Field(strict=True, ge=1, le=86_400)] = 300
    asked_min: _Count = 3
    answer_tokens_max: Annotated[int, Field(strict=True, ge=32, le=8_000)] = 300
    answer_kept_hours: Annotated[int, Field(strict=True, ge=1, le=8_760)] = 24
    # Of a tenant in a day; what a model costs, and what is read.
    cost_microusd_per_day: Amount = 100_000
    read_tokens_per_day: Positive = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepTerms:
    """What the worker goes by."""

    idle_ms: int
    every_seconds: float
    asked_min: int
    answer_tokens_max: int
    answer_kept_ms: int
    cost_microusd_per_day: int
    read_tokens_per_day: int


def sleep_terms_of(table: SleepTable) -> SleepTerms:
    """Return the terms of the file."""
    return SleepTerms(
        idle_ms=table.idle_s * 1_000,
        every_seconds=float(table.every_s),
        asked_min=table.asked_min,
        answer_tokens_max=table.answer_tokens_max,
        answer_kept_ms=table.answer_kept_hours * _HOUR_MS,
        cost_microusd_per_day=table.cost_microusd_per_day,
        read_tokens_per_day=table.read_tokens_per_day,
    )
