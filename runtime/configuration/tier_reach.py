"""What a tier of `flyball.toml` serves beyond plain tokens."""

from governor.tiers import Extra
from runtime.configuration.table import Positive, Table


class TierReachTable(Table):
    """How much a model reads, and what is served though the price does not cover it."""

    context_tokens_max: Positive | None = None
    extras: tuple[Extra, ...] = ()
