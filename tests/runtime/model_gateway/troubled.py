"""A house before two scripted providers, of which the first is in trouble."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from governor.breaker import BreakerTerms
from governor.ids import TierName
from governor.retrying import RetryTerms
from governor.tiers import ModelTier
from runtime.model_gateway.attempts.care import CareTerms
from tests.model_upstream.upstream import Play, Upstream, an_upstream, answering, failing
from tests.runtime.model_gateway.bench import House, Treated, completion, open_house, price, tier

AT_ONCE = CareTerms(retry=RetryTerms(retries=2, pause_ms=0, pause_ms_max=0))
FIVE_AND_TEN = price(input_usd=5, output_usd=10)
OVERLOADED = failing(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}})
BROKEN = failing(500, {"error": {"message": "it broke"}})
LIMITED = failing(429, {"error": {"message": "slow down"}}, Retry_After="30")
REFUSED = failing(401, {"error": {"message": "bad key"}})
WELL = answering(completion())


def low(*fallback: str, **more: Any) -> ModelTier:
    """Return the tier of the first provider: a dollar in, two out, for a million tokens."""
    return replace(tier("low"), fallback=tuple(map(TierName, fallback)), **more)


def high(**more: Any) -> ModelTier:
    """Return the tier of the second provider, five times as dear."""
    return replace(tier("high", model="big-1", priced=FIVE_AND_TEN), provider="other", **more)


@asynccontextmanager
async def two_labs(
    *first: Play,
    second: tuple[Play, ...] = (),
    tiers: tuple[ModelTier, ...] | None = None,
    keys: tuple[str, ...] = (),
    care: CareTerms = AT_ONCE,
    breaker: BreakerTerms | None = None,
    **terms: Any,
) -> AsyncIterator[tuple[House, Upstream, Upstream]]:
    """Yield a house with its providers; `second` is what the other plays, at last well."""
    async with (
        an_upstream(*first) as lab,
        an_upstream(*second, always=WELL) as other,
        open_house(
            base_url=lab.base_url,
            tiers=(low("high"), high()) if tiers is None else tiers,
            treated=Treated(
                keys=keys, care=care, breaker=breaker, others={"other": other.base_url}
            ),
            **terms,
        ) as house,
    ):
        house.budget(cost_microusd=1_000_000)
        yield house, lab, other
