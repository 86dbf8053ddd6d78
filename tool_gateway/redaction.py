"""What of a call's arguments is kept in its record."""

import json
import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec

from tool_gateway.credentials import TRACE, built_in, detector

_TEXT_CHARS_MAX = 200
_TEXT_CHARS_READ = 2_000
_ITEMS_MAX = 50
_DEPTH_MAX = 6
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|api[_-]?key|authorization|credential|cookie"
    r"|private[_-]?key",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?i)\b((?:password|passwd|passphrase|secret|token|api[_-]?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
    r"[^\s\"'&;,]{1,200}"
)
# Nearly every text has nothing of the kind.
_TRACE = detector("trace", rf"{TRACE}|(?i:pass(?:word|wd|phrase)|secret|token|api[_-]?key)")
_DETECTORS = tuple(built_in().values())
HIDDEN = "[redacted]"


def _as_plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


# Made once: what `json.dumps` is asked for beyond its defaults, it makes an encoder for.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
_sorted_json = msgspec.json.Encoder(order="sorted", enc_hook=_as_plain).encode
_readable = json.JSONEncoder(ensure_ascii=False, default=str).encode


class ArgumentsKept(StrEnum):
    """How much of the arguments a record keeps."""

    REDACTED = "redacted"
    FULL = "full"
    HASH = "hash"


def payload_hash(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a hash that is equal exactly for equal calls."""
    return sha256(_canonical([tool, arguments]).encode()).hexdigest()


def likeness_hash(space: str, said: object) -> str:
    """Return a hash that is equal for equal JSON values of one space, and says nothing else.

    Only what one session did is compared by it, so that it may be quicker than `payload_hash`,
    whose values are stored beside keys that outlive an upgrade.
    """
    try:
        return sha256(_sorted_json([space, said])).hexdigest()
    except (ValueError, OverflowError, RecursionError):
        # Half a surrogate pair or a giant number, which only the slower encoder takes.
        return payload_hash(space, {"": said})


def render_arguments(
    tool: str,
    arguments: Mapping[str, object],
    kept: ArgumentsKept,
    *,
    unrecorded: Collection[str] = (),
) -> str:
    """Return the text that a call record keeps of `arguments`, without a word of `unrecorded`."""
    if unrecorded:
        arguments = {
            name: _size_alone(value) if name in unrecorded else value
            for name, value in arguments.items()
        }
    match kept:
        case ArgumentsKept.FULL:
            return _readable(arguments)
        case ArgumentsKept.HASH:
            return f"sha256:{payload_hash(tool, arguments)}"
        case ArgumentsKept.REDACTED:
            return _readable(_redacted(arguments, 0))


def _size_alone(value: object) -> str:
    counted = value if isinstance(value, (str, list, tuple)) else str(value)
    return f"({len(counted)} {'characters' if isinstance(counted, str) else 'entries'})"


def redact_text(text: str) -> str:
    """Return `text` without the parts that look like credentials."""
    if not _TRACE.is_in(text):
        return text
    for one in _DETECTORS:
        text, _ = one.replaced(text, HIDDEN)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _redacted(value: object, depth: int) -> object:
    if depth >= _DEPTH_MAX:
        return "…"
    if isinstance(value, Mapping):
        return {
            redact_text(str(key)[:_TEXT_CHARS_MAX]): HIDDEN
            if _SECRET_NAME.search(str(key))
            else _redacted(item, depth + 1)
            for key, item in list(value.items())[:_ITEMS_MAX]
        }
    if isinstance(value, (list, tuple)):
        return [_redacted(item, depth + 1) for item in value[:_ITEMS_MAX]]
    if isinstance(value, str):
        # Cut first: the patterns look at what may be kept, never at megabytes.
        clean = redact_text(value[:_TEXT_CHARS_READ])
        if len(clean) > _TEXT_CHARS_MAX or len(value) > _TEXT_CHARS_READ:
            return f"{clean[:_TEXT_CHARS_MAX]}… ({len(value)} characters)"
        return clean
    return value
