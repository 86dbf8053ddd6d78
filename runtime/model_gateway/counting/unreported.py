"""What a call is charged for whose provider reported no usage that can be true.

First what the tier's tokenizer counts, else the bytes, which bound it; where a model may have
written what nobody is shown, what was held. A model is taken to write no more than it was told to,
until its text proves otherwise.
"""

from governor.tiers import ModelTier
from runtime.model_gateway.counting.input import input_tokens_counted
from runtime.model_gateway.counting.output import (
    tokens_bound,
    tokens_counted,
    tokens_counted_min,
    tokens_floor,
)
from runtime.model_gateway.counting.reasoning import may_reason_hidden
from runtime.model_gateway.counting.tokenizer import TOKENIZERS, Tokenizer
from runtime.model_gateway.errors import TokenizerError
from runtime.model_gateway.measured import Measured, Metered, Produced, UsageSource
from runtime.model_gateway.model_request import Payload


def unreported(produced: Produced, payload: Payload, tier: ModelTier, *, why: str) -> Metered:
    """Return what can be said of a call from what it wrote; never below the true usage.

    A tokenizer is loaded where the tier names one, so this may take a second then.
    """
    tokenizer, doubt = _tokenizer_of(produced, tier, why)
    output_tokens, output_source = output_counted(produced, payload, tier, tokenizer)
    input_tokens, input_source = input_counted(payload, tier, tokenizer)
    return Measured(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        source=weaker(output_source, input_source),
        doubt=doubt,
    )


def output_counted(
    produced: Produced, payload: Payload, tier: ModelTier, tokenizer: Tokenizer | None
) -> tuple[int, UsageSource]:
    """Return the output tokens of an answer, and who says so."""
    if payload.output_tokens_max == 0:
        return 0, UsageSource.TOKENIZER if tokenizer is not None else UsageSource.BOUND
    floor, held = tokens_floor(produced), payload.output_tokens_max
    if may_reason_hidden(produced, payload, tier):
        return max(held, floor), UsageSource.HELD
    if tokenizer is not None and produced.pieces is not None:
        return tokens_counted(produced, tokenizer), UsageSource.TOKENIZER
    return max(min(tokens_bound(produced, payload), held), floor), UsageSource.BOUND


def input_counted(
    payload: Payload, tier: ModelTier, tokenizer: Tokenizer | None
) -> tuple[int, UsageSource]:
    """Return the input tokens of a request, and who says so."""
    if tokenizer is None:
        return payload.input_tokens_max, UsageSource.BOUND
    counted = input_tokens_counted(payload.request, tier, tokenizer)
    return min(counted, payload.input_tokens_max), UsageSource.TOKENIZER


def produced_tokens_min(produced: Produced, tier: ModelTier, *, ceiling: int = 0) -> int:
    """Return how many tokens were provably written: what a ceiling is compared with.

    Events prove nothing: some servers send a character in each. Below `ceiling` it may be less
    than a tokenizer would say: a token is a byte at the least, so while the bytes cannot be
    above it, nothing is counted.
    """
    floor = tokens_floor(produced)
    tokenizer = None if tier.tokenizer is None else TOKENIZERS.ready(tier.tokenizer)
    if tokenizer is None or produced.pieces is None or floor > ceiling:
        return floor
    if produced.text_bytes <= max(ceiling, produced.looks_above_bytes):
        return floor
    counted = max(floor, tokens_counted_min(produced, tokenizer, enough=ceiling))
    produced.looks_above_bytes = produced.text_bytes + max(0, ceiling - counted)
    return counted


def is_text_kept(tier: ModelTier) -> bool:
    """Tell whether the text that `tier` writes must be kept for its tokenizer to count."""
    return tier.tokenizer is not None


def weaker(one: UsageSource, other: UsageSource) -> UsageSource:
    """Return the source that says less: what is known of a whole is what is known of its parts."""
    order = tuple(UsageSource)
    return max(one, other, key=order.index)


def tokenizer_of(tier: ModelTier) -> Tokenizer | None:
    """Return the tokenizer that a tier names; None where there is none that can be used."""
    if tier.tokenizer is None:
        return None
    try:
        return TOKENIZERS.load(tier.tokenizer)
    except TokenizerError:
        return None


def _tokenizer_of(produced: Produced, tier: ModelTier, why: str) -> tuple[Tokenizer | None, str]:
    tokenizer = tokenizer_of(tier)
    if tier.tokenizer is not None and tokenizer is None:
        return None, f"{why}; the tokenizer of tier {tier.name} cannot be used"
    if tokenizer is not None and produced.pieces is None and produced.text_bytes:
        return None, f"{why}; the text was not kept"
    return tokenizer, why
