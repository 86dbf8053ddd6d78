"""What a tier sets besides its model: effort, mode, tools and examples."""

from dataclasses import replace

from governor.effort import Effort, EffortLevel
from governor.ids import TierName
from governor.tiers import ModelTier
from runtime.configuration.models import Provider
from runtime.configuration.router import RouterTable
from runtime.configuration.strategy import StrategyTable
from runtime.configuration.tier_set import TierSetTable
from runtime.router.strategy_terms import StrategyTerms

_MICRO = 1_000_000


def with_sets(tier: ModelTier, table: TierSetTable, provider: Provider) -> ModelTier:
    """Return the tier with what its table sets, told in its provider's style where it has none.

    Raises:
        InvalidEffortError: the effort is none.
    """
    return replace(
        tier,
        effort=_effort(table.effort),
        effort_style=table.effort_style or provider.effort_style,
        effort_levels=table.effort_levels,
        mode=table.mode,
        tools=table.tools,
        examples=table.examples,
    )


def strategy_terms_of(table: StrategyTable, router: RouterTable) -> StrategyTerms:
    """Return in how many rounds `auto` is answered; `router` says what a good answer is worth."""
    worth = router.answer_usd
    judge = table.cascade.judge
    return StrategyTerms(
        strategy=table.usual,
        value_microusd=None if worth is None else max(round(worth * _MICRO), 1),
        samples=table.cascade.samples,
        judge=None if judge is None else TierName(judge),
        rungs_max=table.cascade.tiers_max,
    )


def _effort(stated: EffortLevel | float | None) -> Effort | None:
    if stated is None:
        return None
    return Effort.of(stated) if isinstance(stated, EffortLevel) else Effort(fraction=stated)
