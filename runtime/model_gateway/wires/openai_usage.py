"""A provider's `usage` in OpenAI's words, as it stands in the JSON of an answer."""

import msgspec

from runtime.model_gateway.counting.reports import Reported, openai_usage

_NONE = (b"", b"null")
_decode = msgspec.json.Decoder().decode


def usage_in(raw: bytes | bytearray | memoryview) -> Reported | None:
    """Return what a `usage` says; None where nothing stands there, or null."""
    if bytes(raw) in _NONE:
        return None
    try:
        return openai_usage(_decode(raw))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Reported(faults=("usage",))
