"""What a request may ask for that costs beyond the price of a tier's tokens."""

from governor.tiers import Extra, ModelTier
from runtime.model_gateway.counting.images import image_part
from runtime.model_gateway.model_request import ImagePart, ModelRequest
from runtime.model_gateway.wires.fields import fault

_WHY = {
    Extra.SERVER_TOOLS: (
        "the provider runs this itself, as often as it likes, and bills what its results add"
    ),
    Extra.OTHER_MODELS: "another model may answer, at its own price",
    Extra.COMPACTION: "the provider bills a summary besides the answer",
    Extra.STORED_PROMPT: "what the provider has stored under it may hold tools and other models",
    Extra.FAST: "the provider charges more for it",
    Extra.PRIORITY: "the provider charges more for it",
    Extra.GEOGRAPHY: "the provider charges more for it",
    Extra.LONG_CONTEXT: "the provider charges more for long inputs",
    Extra.LONG_CACHE: "the provider charges more for what it keeps longer",
    Extra.AUDIO: "sound has a price of its own",
    Extra.PREDICTION: "what is guessed wrongly is billed besides the answer",
}


def refuse_extras(request: ModelRequest, tier: ModelTier) -> None:
    """Do nothing where `tier` serves everything that is asked for.

    Raises:
        InvalidRequestError: something is asked for that the tier's price does not cover.
    """
    for one in request.extras:
        if one.extra not in tier.extras and not _is_priced(one.extra, tier):
            raise fault(
                one.param,
                f"is not served by the tier {tier.name}: {_WHY[one.extra]}. Leave it out, or let "
                f'an administrator add "{one.extra}" to the extras of the tier.',
            )


def _is_priced(extra: Extra, tier: ModelTier) -> bool:
    """Tell whether the tier's price says what an extra costs."""
    price = tier.price
    return (
        extra is Extra.LONG_CACHE
        and price is not None
        and price.cache_write_1h_microusd_per_mtok is not None
    )


def bounded(tokens: int, request: ModelRequest, tier: ModelTier) -> int:
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


def image_at(url: str, param: str, *, detail: str = "auto") -> ImagePart:
    """Return what is known of an image by its address, which may hold the image itself.

    Raises:
        InvalidRequestError: there is no image at such an address.
    """
    try:
        return image_part(url, detail=detail)
    except ValueError as error:
        raise fault(param, str(error)) from error
