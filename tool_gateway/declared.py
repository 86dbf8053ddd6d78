"""What a request, or the arguments of a local command, declare that the call needs."""

import json
import re
from collections.abc import Mapping
from typing import TypeVar

from governor.amounts import AMOUNT_MAX
from governor.fairness.claim import Priority
from governor.intents import NO_INTENT, Intent, Size
from tool_gateway.errors import InvalidContextError
from tool_gateway.results import Json

RESOURCES_META = "flyball/resources"
RESOURCES_VARIABLE = "FLYBALL_RESOURCES"
RESOURCES_ARGUMENT = "resources"
W = TypeVar("W", Size, Priority)
_MIB = 1024 * 1024
_MIB_MAX = AMOUNT_MAX // _MIB
_CPUS_MAX = 1_024
_TEXT_CHARS_MAX = 1_000
_KEYS = ("size", "memory_mib", "cpus", "duration_ms", "priority")
# The variable before a shell line, bare or in quotes, with other assignments around it.
_BEFORE_LINE = re.compile(
    rf"^\s*(?:\w+=\S*\s+)*{RESOURCES_VARIABLE}=(?:'([^']*)'|\"([^\"]*)\"|(\S*))(?=\s|$)"
)
# The same as what the parser below takes, for tools that show the schema of their arguments.
RESOURCES_SCHEMA: Json = {
    "description": (
        "What the command needs: low, medium or high (a quarter, half or all of what the policy "
        "allows), or figures. The policy never grants more than its ceiling; the answer's "
        '_meta["flyball/granted"] says what it did grant.'
    ),
    "oneOf": [
        {"enum": [size.value for size in Size]},
        {
            "type": "object",
            "properties": {
                "size": {"enum": [size.value for size in Size]},
                "memory_mib": {"type": "integer", "minimum": 1, "maximum": _MIB_MAX},
                "cpus": {"type": "number", "exclusiveMinimum": 0, "maximum": _CPUS_MAX},
                "duration_ms": {"type": "integer", "minimum": 1, "maximum": AMOUNT_MAX},
                "priority": {"enum": [priority.value for priority in Priority]},
            },
            "additionalProperties": False,
        },
    ],
}


def intent_in_meta(meta: Mapping[str, object]) -> Intent:
    """Return what a request's `_meta` declares.

    Raises:
        InvalidContextError: it is no declaration.
    """
    value = meta.get(RESOURCES_META)
    return NO_INTENT if value is None else _intent(value, f'_meta["{RESOURCES_META}"]')


def intent_in_arguments(arguments: Mapping[str, object]) -> Intent:
    """Return what the arguments of a local command declare, the most deliberate place first.

    That is the argument of its own, then the variable in `env`, then the variable before a line.

    Raises:
        InvalidContextError: one of them is no declaration.
    """
    found = NO_INTENT
    value = arguments.get(RESOURCES_ARGUMENT)
    if value is not None:
        found = _intent(value, RESOURCES_ARGUMENT)
    variables = arguments.get("env")
    if isinstance(variables, Mapping) and RESOURCES_VARIABLE in variables:
        text = str(variables[RESOURCES_VARIABLE])
        found = found.over(_intent_in_text(text, f"env.{RESOURCES_VARIABLE}"))
    line = arguments.get("command")
    before = _BEFORE_LINE.match(line) if isinstance(line, str) else None
    if before is not None:
        text = next(part for part in before.groups() if part is not None)
        found = found.over(_intent_in_text(text, f"{RESOURCES_VARIABLE} before the command"))
    return found


def _intent_in_text(text: str, where: str) -> Intent:
    """Return what `high`, `memory_mib=512,cpus=2` or a JSON object declares."""
    if len(text) > _TEXT_CHARS_MAX:
        raise InvalidContextError(f"{where}: more than {_TEXT_CHARS_MAX} characters")
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            return _intent(json.loads(stripped), where)
        except (ValueError, RecursionError):
            raise InvalidContextError(f"{where}: this is no JSON") from None
    if "=" not in stripped:
        return _intent(stripped, where)
    fields: dict[str, object] = {}
    for part in stripped.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in fields:
            raise InvalidContextError(f"{where}: {key} stands there twice")
        fields[key] = value if key in ("size", "priority") else _number(value, f"{where}: {key}")
    return _intent(fields, where)


def _intent(value: object, where: str) -> Intent:
    if isinstance(value, str):
        return Intent(size=_word(Size, value, where))
    if not isinstance(value, Mapping):
        message = f"{where}: expected low, medium, high or an object, got {value!r:.80}"
        raise InvalidContextError(message)
    unknown = sorted(str(key) for key in value if key not in _KEYS)
    if unknown:
        message = f"{where}: there is no {unknown[0]!r:.80}; use {', '.join(_KEYS)}"
        raise InvalidContextError(message)
    size, priority = value.get("size"), value.get("priority")
    mib = _whole(value.get("memory_mib"), f"{where}: memory_mib", most=_MIB_MAX)
    return Intent(
        size=None if size is None else _word(Size, size, f"{where}: size"),
        memory_bytes=None if mib is None else mib * _MIB,
        cpu_millis=_millis(value.get("cpus"), f"{where}: cpus"),
        duration_ms=_whole(value.get("duration_ms"), f"{where}: duration_ms", most=AMOUNT_MAX),
        priority=None if priority is None else _word(Priority, priority, f"{where}: priority"),
    )


def _word(kind: type[W], value: object, where: str) -> W:
    try:
        return kind(str(value))
    except ValueError:
        words = ", ".join(kind)
        raise InvalidContextError(f"{where}: use one of {words}, not {value!r:.80}") from None


def _whole(value: object, where: str, *, most: int) -> int | None:
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    if type(value) is not int or not 0 < value <= most:
        raise InvalidContextError(f"{where}: expected a whole number above 0, got {value!r:.80}")
    return value


def _millis(value: object, where: str) -> int | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value <= _CPUS_MAX:  # type: ignore[operator]
        message = f"{where}: expected a number above 0 and up to {_CPUS_MAX}, got {value!r:.80}"
        raise InvalidContextError(message)
    return max(1, round(value * 1000))  # type: ignore[operator]


def _number(text: str, where: str) -> int | float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise InvalidContextError(f"{where}: {text!r:.80} is no number") from None
