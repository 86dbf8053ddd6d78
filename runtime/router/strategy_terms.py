"""What an administrator states of answers in several rounds."""

from dataclasses import dataclass

from governor.ids import TierName
from governor.learning.strategy import Strategy

SAMPLES_MAX = 8
RUNGS_MAX = 4
DRAFT_CHARS_MAX = 8_000
QUESTION_CHARS_MAX = 6_000
PLAN_CHARS_MAX = 600
JUDGE_TOKENS = 256
BID_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyTerms:
    """How `auto` is answered: the usual strategy, and what checks and bids there are.

    `value_microusd` is what a good answer is worth; None takes it from the tiers, of which the
    dearest is taken to be worth its price. `samples` are further cheap answers that a draft is
    compared with, `judge` the tier that scores it.
    """

    strategy: Strategy = Strategy.SINGLE
    value_microusd: int | None = None
    samples: int = 2
    judge: TierName | None = None
    rungs_max: int = 3
