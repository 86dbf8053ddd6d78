"""The most input tokens that a request can be billed for."""

from collections.abc import Sequence

from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ImagePart

# A token stands for at least one byte of what is sent, so the bytes bound the text's tokens.
# What providers add around messages and tools is small; these are several times as much.
_TOKENS_PER_REQUEST = 64
_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_TOOL = 64
_TOKENS_WITH_TOOLS = 512
# No provider's rule makes more of one image, whatever its size and however it is sent.
_TOKENS_PER_IMAGE = 50_000


def input_tokens_max(
    *,
    content_bytes: int,
    messages: int,
    tools: int,
    images: Sequence[ImagePart],
    tier: ModelTier,  # noqa: ARG001 - what a tier says of images and tokens counts here
) -> int:
    """Return a number of tokens that the provider of `tier` cannot exceed for this request.

    `content_bytes` is the whole of what is sent, images that are sent within it included.
    """
    return (
        content_bytes
        + _TOKENS_PER_REQUEST
        + _TOKENS_PER_MESSAGE * messages
        + _TOKENS_PER_TOOL * tools
        + (_TOKENS_WITH_TOOLS if tools else 0)
        + _TOKENS_PER_IMAGE * len(images)
    )
