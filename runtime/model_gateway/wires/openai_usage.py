"""A provider's `usage` in the words of chat completions."""

import msgspec

from runtime.model_gateway.measured import Measured, Metered, Unmeasured
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.wires.reported import OUTPUT_TOKENS_BELIEVED_MAX, whole

_NOT_WHOLE = Unmeasured(why="the provider's usage is not in whole tokens")
UNREPORTED = Unmeasured(why="the provider reported no usage")
_decode = msgspec.json.Decoder().decode


def usage_in(raw: bytes, payload: Payload) -> Metered:
    """Return what a `usage` says, as it stands in the JSON; b"" where none stands there."""
    try:
        return metered(_decode(raw) if raw else None, payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _NOT_WHOLE


def metered(reported: object, payload: Payload) -> Metered:
    """Return what the provider's `usage` says, if it can be true of `payload`.

    More output than was allowed is believed: it is on the provider's bill, and settlement
    records it as an overrun. More input than bytes, or none at all, cannot be.
    """
    if reported is None:
        return UNREPORTED
    if not isinstance(reported, dict):
        return _NOT_WHOLE
    input_tokens, output_tokens = reported.get("prompt_tokens"), reported.get("completion_tokens")
    total_tokens = reported.get("total_tokens")
    if total_tokens is None:
        total_tokens = 0
    if not (whole(input_tokens) and whole(output_tokens) and whole(total_tokens)):
        return _NOT_WHOLE
    # Some providers count the tokens of hidden reasoning in the total alone.
    output_tokens = max(output_tokens, total_tokens - input_tokens)
    why = ""
    if not 0 < input_tokens <= payload.input_tokens_max:
        why = f"the provider reported input tokens outside 1..{payload.input_tokens_max}"
    elif output_tokens > OUTPUT_TOKENS_BELIEVED_MAX:
        why = "the provider reported more output than any model writes"
    if why:
        return Unmeasured(why=why)
    return Measured(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=_cached(reported.get("prompt_tokens_details"), input_tokens=input_tokens),
    )


def _cached(details: object, *, input_tokens: int) -> int:
    """Return how much of the input was cached; 0 where that is not said or cannot be true."""
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if type(cached) is not int:
        return 0
    return cached if 0 <= cached <= input_tokens else 0
