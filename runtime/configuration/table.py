"""What every table of `flyball.toml` has in common, and the numbers that may stand in one."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from governor.amounts import AMOUNT_MAX

Amount = Annotated[int, Field(strict=True, ge=0, le=AMOUNT_MAX)]
Positive = Annotated[int, Field(strict=True, gt=0, le=AMOUNT_MAX)]
# TOML has numbers and truth values of its own: one in quotes, or a number for true, is a slip.
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class Table(BaseModel):
    """A table of the file; unknown keys are errors, because a typo is not an opinion."""

    model_config = ConfigDict(frozen=True, extra="forbid")
