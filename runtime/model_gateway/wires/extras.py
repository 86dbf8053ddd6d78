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


def image_at(url: str, param: str, *, detail: str = "auto") -> ImagePart:
    """Return what is known of an image by its address, which may hold the image itself.

    Raises:
        InvalidRequestError: there is no image at such an address.
    """
    try:
        return image_part(url, detail=detail)
    except ValueError as error:
        raise fault(param, str(error)) from error
