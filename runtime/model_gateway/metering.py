"""What a model call is held for before it runs and charged for after."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from governor.amounts import AMOUNT_MAX, Amounts, Unit
from governor.pricing import ModelPrice
from governor.tiers import ModelTier
from governor.usage import Usage
from runtime.model_gateway.request import Payload

# More than any model writes for one request; a provider that reports it is not believed.
OUTPUT_TOKENS_BELIEVED_MAX = 2**31
_FROM_THE_PROVIDER = (Unit.COST_MICROUSD, Unit.INPUT_TOKENS, Unit.OUTPUT_TOKENS)


class _Reported(BaseModel):
    """A provider's `usage`, as far as a price depends on it."""

    model_config = ConfigDict(frozen=True, strict=True)

    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt
    total_tokens: NonNegativeInt | None = None
    # Only ever a rebate, so what is wrong with it costs the rebate and nothing else.
    prompt_tokens_details: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The tokens of a call, as the provider counted them.

    Of `input_tokens`, `cached_tokens` were in the provider's cache.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """Nobody knows the tokens of a call: what was held for them is charged."""

    why: str


Metered = Measured | Unmeasured
NEVER_MEASURED = Unmeasured(why="the call ended before it was measured")
NOTHING_GENERATED = Measured(input_tokens=0, output_tokens=0)


def estimate_of(payload: Payload, tier: ModelTier, *, timeout_ms: int) -> Amounts:
    """Return the most that the call can use; a tier without a price has no cost to state."""
    held = {
        Unit.INPUT_TOKENS: payload.input_tokens_max,
        Unit.OUTPUT_TOKENS: payload.output_tokens_max,
        Unit.WALL_MS: timeout_ms,
    }
    if tier.price is not None:
        held[Unit.COST_MICROUSD] = tier.price.cost_microusd(
            input_tokens=payload.input_tokens_max, output_tokens=payload.output_tokens_max
        )
    # What no budget can hold is denied by every budget, so it need not be stated exactly.
    return Amounts({unit: min(value, AMOUNT_MAX) for unit, value in held.items()})


def metered(reported: object, payload: Payload) -> Metered:
    """Return what the provider's `usage` says, if it can be true of `payload`.

    More output than was allowed is believed: it is on the provider's bill, and settlement
    records it as an overrun. More input than bytes, or none at all, cannot be.
    """
    if reported is None:
        return Unmeasured(why="the provider reported no usage")
    try:
        usage = _Reported.model_validate(reported)
    except ValidationError:
        return Unmeasured(why="the provider's usage is not in whole tokens")
    input_tokens = usage.prompt_tokens
    if not 0 < input_tokens <= payload.input_tokens_max:
        return Unmeasured(
            why=f"the provider reported input tokens outside 1..{payload.input_tokens_max}"
        )
    # Some providers count the tokens of hidden reasoning in the total alone.
    output_tokens = max(usage.completion_tokens, (usage.total_tokens or 0) - input_tokens)
    if output_tokens > OUTPUT_TOKENS_BELIEVED_MAX:
        return Unmeasured(why="the provider reported more output than any model writes")
    cached_tokens = _cached(usage.prompt_tokens_details, input_tokens=input_tokens)
    return Measured(
        input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens
    )


def _cached(details: object, *, input_tokens: int) -> int:
    """Return how much of the input was cached; 0 where that is not said or cannot be true."""
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if isinstance(cached, bool) or not isinstance(cached, int):
        return 0
    return cached if 0 <= cached <= input_tokens else 0


def usage_of(tokens: Metered, price: ModelPrice, *, wall_ms: int) -> Usage:
    """Return the usage to settle; what nobody measured is charged as it was held."""
    match tokens:
        case Unmeasured(why=why):
            return Usage(
                measured=Amounts({Unit.WALL_MS: wall_ms}),
                unmeasured=dict.fromkeys(_FROM_THE_PROVIDER, why),
            )
        case Measured(
            input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens
        ):
            cost_microusd = price.cost_microusd(
                input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens
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
