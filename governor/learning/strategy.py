"""In how many rounds a query is answered."""

from enum import StrEnum


class Strategy(StrEnum):
    """One call, a cheap one that is checked before a dear one, or tiers that bid first."""

    SINGLE = "single"
    CASCADE = "cascade"
    AUCTION = "auction"
