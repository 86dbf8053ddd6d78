"""The tables of `flyball.toml` about what commands need, and those that run out of memory."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from governor.expectation import ExpectationTerms
from governor.ladder import LadderTerms
from governor.raising import AskTerms, Otherwise, WhoIsAsked
from runtime.configuration.table import Table

_WAIT_S_MAX = 60 * 60
_USUAL = LadderTerms()
_LEARNED = ExpectationTerms()
Percent = Annotated[int, Field(strict=True, gt=0, le=100)]


class LadderTable(Table):
    """When a command is throttled and taken for stuck, who is asked, and what a silence means."""

    throttle_percent: Percent = _USUAL.throttle_permille // 10
    full_percent: Percent = _USUAL.full_permille // 10
    stall_ms: Annotated[int, Field(strict=True, ge=500, le=60_000)] = _USUAL.stall_ms
    raises_max: Annotated[int, Field(strict=True, ge=1, le=100)] = _USUAL.raises_max
    ask: Literal["admin", "agent", "none"] = "none"
    wait_s: Annotated[int, Field(strict=True, gt=0, le=_WAIT_S_MAX)] = 60
    otherwise: Literal["kill", "go_on"] = "kill"

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.throttle_percent > self.full_percent:
            raise ValueError(
                f"throttle_percent = {self.throttle_percent} is above "
                f"full_percent = {self.full_percent}"
            )
        return self


class EstimatesTable(Table):
    """From how many calls on what is learned counts, and whether budgets hold it."""

    holds: Literal["learned", "limits"] = "learned"
    samples_min: Annotated[int, Field(strict=True, ge=1, le=2_000)] = _LEARNED.samples_min
    quantile_percent: Annotated[int, Field(strict=True, ge=50, le=100)] = (
        _LEARNED.quantile_permille // 10
    )
    margin_percent: Annotated[int, Field(strict=True, ge=100, le=1_000)] = (
        _LEARNED.margin_permille // 10
    )


def expectation_terms_of(table: EstimatesTable) -> ExpectationTerms:
    """Return how what was learned is read."""
    return ExpectationTerms(
        samples_min=table.samples_min,
        quantile_permille=table.quantile_percent * 10,
        margin_permille=table.margin_percent * 10,
        holds=table.holds == "learned",
    )


def ladder_terms_of(table: LadderTable) -> LadderTerms:
    """Return when each rung is reached."""
    return LadderTerms(
        throttle_permille=table.throttle_percent * 10,
        full_permille=table.full_percent * 10,
        stall_ms=table.stall_ms,
        raises_max=table.raises_max,
    )


def ask_terms_of(table: LadderTable) -> AskTerms:
    """Return who is asked, and what a silence means."""
    return AskTerms(
        who=WhoIsAsked(table.ask),
        wait_ms=table.wait_s * 1000,
        otherwise=Otherwise(table.otherwise),
    )
