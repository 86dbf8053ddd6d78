"""The table of `flyball.toml` about how well searches of the memory are done."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from governor.experience.tier_choice import TierTerms
from runtime.configuration.table import Flag, Name, Table

_Share = Annotated[float, Field(strict=True, ge=0.0, le=0.5)]
_Price = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]


class Admission(StrEnum):
    """What enters a namespace that a team shares: all that is written, or what is of use."""

    ALL = "all"
    LEARNED = "learned"


class TiersTable(Table):
    """How searches are chosen: what an answer is worth, what it costs, how much is tried out.

    Nothing is tried out, and so nothing learned, until `explored` says how much. Where a model
    `tier` is named, what the best searches show of long experiences is told by it; one search
    spends no more than `microusd_per_search_max` on that.
    """

    enabled: Flag = True
    explored: _Share = 0.0
    worth_microusd: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)] = 2_000
    thousand_tokens_microusd: _Price = 150
    second_microusd: _Price = 100
    tier: Name | None = None
    microusd_per_search_max: _Price = 5_000


def tier_terms_of(table: TiersTable) -> TierTerms:
    """Return what a table says, as searches are chosen by it."""
    return TierTerms(
        worth_microusd=float(table.worth_microusd),
        thousand_tokens_microusd=float(table.thousand_tokens_microusd),
        second_microusd=float(table.second_microusd),
        explored=table.explored,
        cost_max_microusd=table.microusd_per_search_max,
    )
