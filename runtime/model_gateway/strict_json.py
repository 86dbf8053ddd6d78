"""JSON objects from strangers, read so strictly that they can always be written back."""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, NoReturn

import msgspec

# Whoever walks through a value, a hash or a record, does so by recursion.
DEPTH_MAX = 100
_quick = msgspec.json.Decoder().decode


def object_in(content: bytes) -> dict[str, Any]:
    """Return the JSON object in `content`.

    Raises:
        ValueError: it is not JSON, not an object, or nested deeper than `DEPTH_MAX`.
    """
    try:
        value = _quick(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Half of a surrogate pair is JSON too, and what is wrong with the rest is said there.
        value = _in_words(content)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - about the bytes, not a type
    if content.count(b"[") + content.count(b"{") > DEPTH_MAX and _is_deeper(value, DEPTH_MAX):
        raise ValueError(f"it is nested more than {DEPTH_MAX} levels deep")
    return value


def _in_words(content: bytes) -> object:
    try:
        return json.loads(content.decode(), parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text:.40} is too large a number")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [
            child for item in level for child in _children(item) if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
