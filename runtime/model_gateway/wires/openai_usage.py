"""A provider's `usage` in OpenAI's words, as it stands in the JSON of an answer."""

import msgspec

from runtime.model_gateway.counting.reports import Reported, openai_usage

_NONE = (b"", b"null")
_NOTHING = (*_NONE, b'""', b"{}", b"[]", b"false")
_NOTHING_BYTES_MAX = 16
_decode = msgspec.json.Decoder().decode


def is_nothing(raw: bytes | bytearray | memoryview) -> bool:
    """Tell whether what stands at a name says nothing: null, "", {} and the like."""
    return len(raw) <= _NOTHING_BYTES_MAX and bytes(raw).translate(None, b" \t\r\n") in _NOTHING


def usage_in(raw: bytes | bytearray | memoryview) -> Reported | None:
    """Return what a `usage` says; None where nothing stands there, or null."""
    if bytes(raw) in _NONE:
        return None
    try:
        return openai_usage(_decode(raw))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Reported(faults=("usage",))
