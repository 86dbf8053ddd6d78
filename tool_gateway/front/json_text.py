"""JSON from strangers, read as RFC 8259 says and no deeper than everything behind can follow."""

import json
from math import isfinite
from typing import Any, NoReturn

# Whoever writes a value again, checks it or walks through it does so by recursion.
DEPTH_MAX = 200


class NotJsonError(ValueError):
    """The bytes are no JSON that is read here; the message says why."""


def value_in(content: bytes) -> object:
    """Return the value that `content` is.

    Raises:
        NotJsonError: it is no JSON in UTF-8, nested too deeply, or has a number beyond all bounds.
    """
    try:
        # Told which encoding it is: the library would guess, and take UTF-16 for JSON.
        text = content.decode().removeprefix("\ufeff")
        value: Any = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise NotJsonError(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise NotJsonError(f"it is nested more than {DEPTH_MAX} deep") from error
    except json.JSONDecodeError as error:
        raise NotJsonError(f"{error.msg} at character {error.pos}") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise NotJsonError("it has a number that is too large") from error
    if is_too_deep(content, value):
        raise NotJsonError(f"it is nested more than {DEPTH_MAX} deep")
    return value


def is_too_deep(content: bytes, value: object) -> bool:
    """Tell whether the value that was read of `content` is nested deeper than `DEPTH_MAX`."""
    if content.count(b"[") + content.count(b"{") <= DEPTH_MAX:
        return False  # almost everything that is ever sent
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return any(isinstance(item, (dict, list)) for item in level)


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _refuse(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise json.JSONDecodeError(message, "", 0)


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value
