"""How the tokens of a tier are counted and priced, as `flyball.toml` says it."""

from decimal import ROUND_CEILING, Decimal
from typing import Annotated

from pydantic import Field

from governor.pricing import ModelPrice
from runtime.configuration.table import Flag, Positive, Table
from runtime.errors import ConfigError
from runtime.model_gateway.counting.tokenizer import check_tokenizer
from runtime.model_gateway.errors import TokenizerError

_MICRO = 1_000_000

_Usd = Annotated[Decimal, Field(ge=0, le=1_000_000)]


class TierCountingTable(Table):
    """What a million tokens cost, and what is known of them besides."""

    input_usd_per_mtok: _Usd | None = None
    output_usd_per_mtok: _Usd | None = None
    cached_input_usd_per_mtok: _Usd | None = None
    cache_write_usd_per_mtok: _Usd | None = None
    cache_write_1h_usd_per_mtok: _Usd | None = None
    tokenizer: str | None = None
    hidden_reasoning: Flag | None = None
    image_tokens_max: Positive | None = None

    def price(self) -> ModelPrice | None:
        """Return the price that the tier states itself; None: a list prices it.

        Raises:
            InvalidPriceError: it cannot be charged.
        """
        if self.input_usd_per_mtok is None or self.output_usd_per_mtok is None:
            return None
        return ModelPrice(
            input_microusd_per_mtok=_micro(self.input_usd_per_mtok),
            output_microusd_per_mtok=_micro(self.output_usd_per_mtok),
            cached_input_microusd_per_mtok=_micro_if(self.cached_input_usd_per_mtok),
            cache_write_microusd_per_mtok=_micro_if(self.cache_write_usd_per_mtok),
            cache_write_1h_microusd_per_mtok=_micro_if(self.cache_write_1h_usd_per_mtok),
        )


def tokenizer_of(tier: str, path: str | None) -> str | None:
    """Return the tokenizer that a tier names, where it can be used.

    Raises:
        ConfigError: there is no such file, or nothing that reads it.
    """
    if path is None:
        return None
    try:
        check_tokenizer(path)
    except TokenizerError as error:
        raise ConfigError(f"tier {tier}: tokenizer: {error}") from error
    return path


def _micro_if(usd: Decimal | None) -> int | None:
    return None if usd is None else _micro(usd)


def _micro(usd: Decimal) -> int:
    return int((usd * _MICRO).to_integral_value(rounding=ROUND_CEILING))
