"""Model servers, their tiers, and what they cost, as `flyball.toml` says them."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from governor.effort import EffortStyle
from governor.pricing import PRICE_MAX
from runtime.configuration.provider_care import ProviderCareTable, TierCareTable
from runtime.configuration.table import Flag, Name, Positive, Table
from runtime.configuration.tier_counting import TierCountingTable
from runtime.configuration.tier_reach import TierReachTable
from runtime.configuration.tier_set import TierSetTable


class Provider(ProviderCareTable):
    """A model server; its keys come from the environment."""

    name: Name
    base_url: str
    effort_style: EffortStyle = EffortStyle.NONE

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("expected an http:// or https:// address, ending before /chat")
        return value.rstrip("/")


class Tier(TierSetTable, TierCareTable, TierCountingTable, TierReachTable):
    """A named cost and quality level; the first one listed should be the cheapest."""

    name: Name
    provider: Name
    model: Name
    output_tokens_max: Positive = 4096
    # Where a budget pays for less, a call is denied rather than cut so short.
    output_tokens_min: Positive | None = None

    @model_validator(mode="after")
    def _is_some_output(self) -> Self:
        least = self.output_tokens_min
        if least is not None and least > self.output_tokens_max:
            raise ValueError(
                f"output_tokens_min: {least} is more than output_tokens_max, "
                f"{self.output_tokens_max}; state less"
            )
        return self


_Price = Annotated[int, Field(strict=True, ge=0, le=PRICE_MAX)]


class PriceTable(Table):
    """The price of the models that a provider's name and a pattern cover."""

    provider: str = "*"
    model: Annotated[str, Field(min_length=1)]
    input_microusd_per_mtok: _Price
    output_microusd_per_mtok: _Price
    cached_input_microusd_per_mtok: _Price | None = None
    cache_write_microusd_per_mtok: _Price | None = None
    cache_write_1h_microusd_per_mtok: _Price | None = None


class PricesFile(Table):
    """The whole price file."""

    price: tuple[PriceTable, ...] = ()


class Pricing(Table):
    """Prices of models that their tier does not state, and the ceiling for unknown ones."""

    file: str | None = None
    unknown_input_microusd_per_mtok: _Price | None = None
    unknown_output_microusd_per_mtok: _Price | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ceilings = (self.unknown_input_microusd_per_mtok, self.unknown_output_microusd_per_mtok)
        if (ceilings[0] is None) != (ceilings[1] is None):
            raise ValueError(
                "unknown_input_microusd_per_mtok and unknown_output_microusd_per_mtok go "
                "together: give both or neither"
            )
        return self


class TierRuleTable(Table):
    """When model = "auto" means `tier`; every condition given must hold."""

    tier: Name
    prompt_chars_min: Positive | None = None
    keywords: tuple[str, ...] = ()
    has_tools: Flag | None = None
