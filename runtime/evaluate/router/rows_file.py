"""Recorded outcomes that are to be compared: prompts of which every tier's is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from governor.learning.linear import Matrix
from runtime.router.outcome_lines import Line, OutcomesFileError, read_lines

LINES_MAX = 50_000
TIERS_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Prompts whose outcome is known in every tier; `left_out` had no outcome in one of them."""

    tiers: tuple[str, ...]
    lines: tuple[Line, ...]
    left_out: int

    def scores(self) -> Matrix:
        """Return the scores, a row for each prompt and a column for each tier."""
        return np.array([[line.scores[tier] for tier in self.tiers] for line in self.lines])

    def costs(self) -> Matrix:
        """Return the costs as the file has them."""
        return np.array([[line.costs[tier] for tier in self.tiers] for line in self.lines])


def read_outcomes(path: Path, *, tiers: Sequence[str] | None = None) -> Recorded:
    """Return the outcomes in `path`: one prompt a line with id, group, prompt and tiers.

    `tiers` are those that are asked for; without them it is every tier of the file.

    Raises:
        OutcomesFileError: the file cannot be read, or a line of it is not usable.
    """
    lines = read_lines(path, lines_max=LINES_MAX)
    names = tiers or list(dict.fromkeys(name for line in lines for name in line.scores))
    if len(names) > TIERS_MAX:
        raise OutcomesFileError(f"{path}: {len(names)} tiers; at most {TIERS_MAX} are compared")
    whole = tuple(line for line in lines if all(name in line.scores for name in names))
    if not whole:
        raise OutcomesFileError(
            f"{path}: no line has an outcome for all of the tiers {', '.join(names)}"[:500]
        )
    return Recorded(tiers=tuple(names), lines=whole, left_out=len(lines) - len(whole))
