"""In how many rounds `auto` is answered, as `flyball.toml` says it."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from governor.learning.strategy import Strategy
from runtime.configuration.table import Flag, Name, Table

_SAMPLES_MAX = 8


class CascadeTable(Table):
    """How a draft is checked before a better tier is asked."""

    samples: Annotated[int, Field(strict=True, ge=0, le=_SAMPLES_MAX)] = 2
    judge: Name | None = None
    tiers_max: Annotated[int, Field(strict=True, ge=2, le=4)] = 3


class ExamplesTable(Table):
    """Where worked examples are."""

    file: str | None = None


class StrategyTable(Table):
    """In how many rounds `auto` is answered."""

    usual: Strategy = Strategy.SINGLE
    # Sessions whose run looks like one that fails go on at the next tier.
    move_up: Flag = False
    cascade: CascadeTable = CascadeTable()
    examples: ExamplesTable = ExamplesTable()

    def beside(self, folder: Path) -> Self:
        """Return the table with its paths meant from a folder."""
        if self.examples.file is None:
            return self
        file = str((folder / self.examples.file).absolute())
        return self.model_copy(update={"examples": ExamplesTable(file=file)})
