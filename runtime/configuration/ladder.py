"""The table of `flyball.toml` about commands that run out of memory."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from governor.ladder import LadderTerms
from governor.raising import AskTerms, Otherwise, WhoIsAsked
from runtime.configuration.table import Table

_WAIT_S_MAX = 60 * 60
_USUAL = LadderTerms()
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
