"""Which tier is asked when another has failed, of those that are named for it."""

from collections.abc import Callable, Collection, Sequence

from governor.ids import TierName
from governor.tiers import ModelTier


def next_fallback(
    named: ModelTier,
    tiers: Sequence[ModelTier],
    *,
    tried: Collection[TierName],
    is_for_size: bool,
    can_serve: Callable[[ModelTier], bool],
) -> ModelTier | None:
    """Return the first tier that `named` falls back on and that could do what it could not.

    It was not `tried` and `can_serve` the request now. One `is_for_size` takes more than every
    tier that was tried, and says so.
    """
    by_name = {tier.name: tier for tier in tiers}
    window = max(
        (tier.context_tokens_max or 0 for tier in tiers if tier.name in tried),
        default=0,
    )
    for name in named.fallback:
        tier = by_name.get(name)
        if (
            tier is not None
            and name not in tried
            and (not is_for_size or (tier.context_tokens_max or 0) > window)
            and can_serve(tier)
        ):
            return tier
    return None
