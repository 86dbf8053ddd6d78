"""The most input tokens that a request can be billed for."""

from collections.abc import Sequence

from governor.tiers import ModelTier
from runtime.model_gateway.counting.images import image_tokens_max
from runtime.model_gateway.counting.texts import growth, indented_more, rewritten_more
from runtime.model_gateway.model_request import ImagePart

# What providers add around messages and tools is small; these are several times as much.
_TOKENS_PER_REQUEST = 128
_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_TOOL = 64
_TOKENS_WITH_TOOLS = 1_024
# Around an image: where it begins and ends, and its number.
_TOKENS_PER_IMAGE = 16
# What the history of a conversation with tools is told by, in either wire format.
_SAYS_TOOLS = (b'"tool_', b'"function_call"')


def input_tokens_max(
    *,
    content_bytes: int,
    messages: int,
    tools: int,
    images: Sequence[ImagePart],
    tier: ModelTier,
    content: bytes = b"",
    tools_json: bytes = b"",
) -> int:
    """Return a number of tokens that the provider of `tier` cannot exceed for this request.

    `content_bytes` is the whole of what is sent, images that are sent within it included, and
    `content` is that itself: some of its characters may count for more than their bytes.
    `tools_json` are the definitions of the tools, which are told to the model in other words.
    """
    sent_within = sum(image.encoded_bytes for image in images)
    text = max(0, content_bytes - sent_within)
    text += growth(content) + indented_more(tools_json)
    if tools or any(said in content for said in _SAYS_TOOLS):
        text += rewritten_more(content)
    return (
        text
        + _TOKENS_PER_REQUEST
        + _TOKENS_PER_MESSAGE * messages
        + _TOKENS_PER_TOOL * tools
        + (_TOKENS_WITH_TOOLS if tools else 0)
        + sum(_TOKENS_PER_IMAGE + image_tokens_max(image, tier) for image in images)
    )
