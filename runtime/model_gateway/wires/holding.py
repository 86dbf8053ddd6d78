"""What is held for a request before it is sent: the input as it leaves, the output at the most."""

from collections.abc import Mapping

from governor.tiers import ModelTier
from runtime.model_gateway.counting.bounds import input_tokens_max
from runtime.model_gateway.model_request import ModelRequest, Payload
from runtime.model_gateway.wires.fields import encoded, fault


def payload_of(
    request: ModelRequest, tier: ModelTier, fields: Mapping[str, object], *, output_tokens: int
) -> Payload:
    """Return `fields` as they are sent, with what is held for them; tools stand in `tools`.

    Raises:
        InvalidRequestError: something cannot be counted, and the context is not known.
    """
    content = encoded(fields)
    held = input_held(
        request,
        tier,
        content,
        messages=request.messages_count,
        tools_json=encoded({"tools": fields["tools"]}) if request.tools_count else b"",
    )
    return Payload(
        request=request,
        model=tier.model,
        content=content,
        input_tokens_max=held,
        output_tokens_max=output_tokens,
    )


def input_held(
    request: ModelRequest,
    tier: ModelTier,
    content: bytes,
    *,
    messages: int,
    tools_json: bytes,
) -> int:
    """Return the most input tokens that `content`, which is what is sent, can be billed for.

    Raises:
        InvalidRequestError: something cannot be counted, and the context is not known.
    """
    counted = request.more_tokens + input_tokens_max(
        content_bytes=len(content),
        messages=messages,
        tools=request.tools_count,
        images=request.images,
        tier=tier,
        content=content,
        tools_json=tools_json,
    )
    return _bounded(counted, request, tier)


def output_held(request: ModelRequest, tier: ModelTier, output_tokens_max: int | None) -> int:
    """Return how much may be written: the least of what tier, client and budgets allow."""
    caps = (tier.output_tokens_max, request.output_tokens_asked, output_tokens_max)
    return min(tokens for tokens in caps if tokens is not None)


def _bounded(tokens: int, request: ModelRequest, tier: ModelTier) -> int:
    """Return the most input tokens: those that were counted, at most the context of the model.

    Raises:
        InvalidRequestError: something cannot be counted, and the context is not known.
    """
    if not request.uncounted:
        # A model that reads less refuses what is longer, so no more than that is billed.
        most = tier.context_tokens_max if request.has_bounded_input else None
        return tokens if most is None else min(tokens, most)
    if tier.context_tokens_max is not None:
        return tier.context_tokens_max
    one = request.uncounted[0]
    raise fault(
        one.param,
        f"{one.what} is not served by the tier {tier.name}: its tokens cannot be bounded "
        "before the call. Send what can be counted, such as text, or let an administrator state "
        "context_tokens_max of the tier, which is then held.",
    )
