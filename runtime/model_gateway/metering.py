"""What a model call is held for before it runs and charged for after."""

from governor.amounts import AMOUNT_MAX, Amounts, Unit
from governor.pricing import ModelPrice
from governor.tiers import ModelTier
from governor.usage import Usage
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.measured import Measured, Metered, Unmeasured
from runtime.model_gateway.model_request import Payload, WireName
from runtime.model_gateway.wires.wire import StreamMeter

_FROM_THE_PROVIDER = (Unit.COST_MICROUSD, Unit.INPUT_TOKENS, Unit.OUTPUT_TOKENS)


def estimate_of(payload: Payload, tier: ModelTier, *, timeout_ms: int) -> Amounts:
    """Return the most that the call can use; a tier without a price has no cost to state."""
    held = {
        Unit.INPUT_TOKENS: payload.input_tokens_max,
        Unit.OUTPUT_TOKENS: payload.output_tokens_max,
        Unit.WALL_MS: timeout_ms,
    }
    if tier.price is not None:
        held[Unit.COST_MICROUSD] = held_price(payload, tier.price).cost_microusd(
            input_tokens=payload.input_tokens_max, output_tokens=payload.output_tokens_max
        )
    # What no budget can hold is denied by every budget, so it need not be stated exactly.
    return Amounts.checked({unit: min(value, AMOUNT_MAX) for unit, value in held.items()})


def estimate_of_kept(*, timeout_ms: int) -> Amounts:
    """Return what a call can use that no provider hears of."""
    free = (Unit.INPUT_TOKENS, Unit.OUTPUT_TOKENS, Unit.COST_MICROUSD)
    return Amounts({**dict.fromkeys(free, 0), Unit.WALL_MS: timeout_ms})


def held_price(payload: Payload, price: ModelPrice) -> ModelPrice:
    """Return the price that a call is held at: what is written to a cache may cost more.

    Anthropic's cache is for those who ask; others write to theirs as they please.
    """
    request = payload.request
    asks = request.writes_cache
    return price.held(
        may_write=asks or request.wire is not WireName.ANTHROPIC_MESSAGES, may_write_1h=asks
    )


def heard_of(meter: StreamMeter, payload: Payload, tier: ModelTier, *, why: str) -> Metered:
    """Return the tokens of a stream: what its provider reported, else what it is seen to be.

    `why` says why nobody knows them, where that is so.
    """
    return believed(meter.reported, meter.produced, payload, tier, why=why, is_whole=meter.is_whole)


def usage_of(tokens: Metered, price: ModelPrice, *, wall_ms: int) -> Usage:
    """Return the usage to settle; what nobody measured is charged as it was held."""
    match tokens:
        case Unmeasured(why=why):
            return Usage(
                measured=Amounts({Unit.WALL_MS: wall_ms}),
                unmeasured=dict.fromkeys(_FROM_THE_PROVIDER, why),
            )
        case Measured(input_tokens=input_tokens, output_tokens=output_tokens):
            cost_microusd = price.cost_microusd(
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cached_tokens=tokens.cached_tokens,
                cache_write_tokens=tokens.cache_write_tokens,
                cache_write_1h_tokens=tokens.cache_write_1h_tokens,
            )
            return Usage(
                measured=Amounts(
                    {
                        Unit.COST_MICROUSD: min(cost_microusd, AMOUNT_MAX),
                        Unit.INPUT_TOKENS: input_tokens,
                        Unit.OUTPUT_TOKENS: output_tokens,
                        Unit.WALL_MS: wall_ms,
                    }
                )
            )
