"""What a tier of `flyball.toml` sets besides its model."""

from typing import Annotated

from pydantic import Field, field_validator

from governor.effort import FRACTION_MAX, FRACTION_MIN, AnswerMode, EffortLevel, EffortStyle
from governor.learning.examples import EXAMPLES_MAX
from runtime.configuration.table import Name, Table

_Fraction = Annotated[float, Field(strict=True, ge=FRACTION_MIN, le=FRACTION_MAX)]


class TierSetTable(Table):
    """Effort, mode, tools and examples of a tier."""

    effort: EffortLevel | _Fraction | None = None
    effort_style: EffortStyle | None = None
    effort_levels: Annotated[tuple[EffortLevel, ...], Field(max_length=len(EffortLevel))] = ()
    mode: AnswerMode | None = None
    tools: Annotated[tuple[Name, ...], Field(max_length=1000)] | None = None
    examples: Annotated[int, Field(strict=True, ge=0, le=EXAMPLES_MAX)] | None = None

    @field_validator("effort", mode="before")
    @classmethod
    def _is_effort(cls, value: object) -> object:
        if isinstance(value, str) and value not in tuple(EffortLevel):
            raise ValueError(
                f"expected one of {', '.join(EffortLevel)}, or a fraction of the usual from "
                f"{FRACTION_MIN} to {FRACTION_MAX:g}"
            )
        return value
