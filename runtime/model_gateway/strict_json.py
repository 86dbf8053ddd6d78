"""JSON objects from strangers, read so strictly that they can always be written back."""

import json
from math import isfinite
from typing import Any, NoReturn

DEPTH_MAX = 100


def object_in(content: bytes) -> dict[str, Any]:
    """Return the JSON object in `content`.

    Raises:
        ValueError: it is not JSON, not an object, or nested deeper than `DEPTH_MAX`.
    """
    try:
        value = json.loads(content.decode(), parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - about the bytes, not a type
    if _is_deeper(value, DEPTH_MAX):
        raise ValueError(f"it is nested more than {DEPTH_MAX} levels deep")
    return value


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
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
