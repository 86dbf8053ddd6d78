"""Fields that the other wire has no words for."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.model_gateway.errors import InvalidRequestError

_SHOWN_MAX = 80


def untold(param: str, why: str = "") -> InvalidRequestError:
    """Return the refusal of a field that the provider of the tier cannot be told."""
    name = param[:_SHOWN_MAX]
    return InvalidRequestError(
        f"{name}: {why or 'cannot be said'} in the wire format of the provider that serves this "
        "tier; leave it out, or name a tier that speaks yours.",
        param=name,
    )


def rows(value: object, *, where: str) -> list[Mapping[str, Any]]:
    """Return a field that is a list of objects; null is none of them.

    Raises:
        InvalidRequestError: it is something else.
    """
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    raise untold(where, "is no list of objects, and cannot be said")


def table(value: object, *, where: str) -> Mapping[str, Any]:
    """Return a field that is an object; null is an empty one.

    Raises:
        InvalidRequestError: it is something else.
    """
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise untold(where, "is no object, and cannot be said")


def refuse_untold(
    fields: Mapping[str, Any],
    *,
    told: Collection[str],
    neutral: Mapping[str, Sequence[object]],
    within: str = "",
) -> None:
    """Refuse what is not `told`, unless it is null or asks for what the other does anyway.

    Raises:
        InvalidRequestError: a field cannot be said.
    """
    for name, value in fields.items():
        if value is None or name in told or value in neutral.get(name, ()):
            continue
        raise untold(f"{within}{name}")
