"""What a call is charged for whose provider reported no usage."""

from governor.tiers import ModelTier
from runtime.model_gateway.measured import Metered, Produced, Unmeasured
from runtime.model_gateway.model_request import Payload


def unreported(
    produced: Produced,  # noqa: ARG001 - what was written is what a tokenizer counts
    payload: Payload,  # noqa: ARG001 - what was sent bounds the input
    tier: ModelTier,  # noqa: ARG001 - the tier names its tokenizer
    *,
    why: str,
) -> Metered:
    """Return what can be said of a call from what it wrote; never below the true usage."""
    return Unmeasured(why=why)


def produced_tokens_min(produced: Produced, tier: ModelTier) -> int:  # noqa: ARG001 - as above
    """Return how many tokens were provably written: what a ceiling is compared with."""
    return produced.events


def is_text_kept(tier: ModelTier) -> bool:  # noqa: ARG001 - as above
    """Tell whether the text that `tier` writes must be kept for its tokenizer to count."""
    return False
