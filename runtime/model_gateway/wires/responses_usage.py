"""The usage figures of OpenAI's Responses, and what they say of a payload."""

from collections.abc import Mapping

from runtime.model_gateway.measured import Measured, Metered, Unmeasured
from runtime.model_gateway.wires.reported import OUTPUT_TOKENS_BELIEVED_MAX, whole


def metered(reported: object, *, input_tokens_max: int | None) -> Metered:
    """Return what a usage says, if it can be true; without a bound any input can.

    More output than was allowed is believed: it is on the provider's bill.
    """
    if reported is None:
        return Unmeasured(why="the provider reported no usage")
    if not isinstance(reported, Mapping):
        return Unmeasured(why="the provider's usage is not in whole tokens")
    tokens, output_tokens = reported.get("input_tokens"), reported.get("output_tokens")
    if not whole(tokens) or not whole(output_tokens):
        return Unmeasured(why="the provider's usage is not in whole tokens")
    if tokens == 0 or (input_tokens_max is not None and tokens > input_tokens_max):
        return Unmeasured(why=f"the provider reported input tokens outside 1..{input_tokens_max}")
    total = reported.get("total_tokens")
    if whole(total):
        # Some servers count the tokens of hidden reasoning in the total alone.
        output_tokens = max(output_tokens, total - tokens)
    if output_tokens > OUTPUT_TOKENS_BELIEVED_MAX:
        return Unmeasured(why="the provider reported more output than any model writes")
    details = reported.get("input_tokens_details")
    cached = _part(details, "cached_tokens", most=tokens)
    return Measured(
        input_tokens=tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cache_write_tokens=_part(details, "cache_write_tokens", most=tokens - cached),
    )


def _part(details: object, name: str, *, most: int) -> int:
    """Return a part of the input; 0 where it is not said or cannot be true."""
    value = details.get(name) if isinstance(details, Mapping) else None
    return value if whole(value) and value <= most else 0
