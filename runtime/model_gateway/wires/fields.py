"""Fields of a stranger's request, read strictly: an error names the field that is at fault."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.strict_json import object_in

MODEL_CHARS_MAX = 200
_PARAM_CHARS_MAX = 80

Object = Mapping[str, Any]


def fault(param: str, message: str) -> InvalidRequestError:
    """Return the error of a field."""
    shown = param[:_PARAM_CHARS_MAX]
    return InvalidRequestError(f"{shown}: {message}", param=shown)


def body_in(content: bytes) -> dict[str, Any]:
    """Return the object in a body.

    Raises:
        InvalidRequestError: it is no JSON object.
    """
    try:
        return object_in(content)
    except ValueError as error:
        message = f"The body cannot be read as JSON: {error}"
        raise InvalidRequestError(message) from error


def encoded(fields: Object) -> bytes:
    """Return the body to send to a provider.

    Raises:
        InvalidRequestError: a text cannot be written in UTF-8.
    """
    try:
        try:
            return msgspec.json.encode(fields)
        except OverflowError:
            # A whole number of more than 64 bits, which is the provider's to refuse.
            return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        message = "The body holds half of a surrogate pair, which is no text."
        raise InvalidRequestError(message) from error


def model_in(fields: Object) -> str:
    """Return the model that is asked for."""
    model = fields.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= MODEL_CHARS_MAX:
        raise fault("model", f"name a model in 1 to {MODEL_CHARS_MAX} characters")
    return model


def flag_in(fields: Object, name: str) -> bool:
    """Return a field that is true or false, false where it is left out."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise fault(name, "use true or false")
    return value is True


def tokens_in(fields: Object, name: str, *, least: int) -> int | None:
    """Return a number of tokens, None where it is left out."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise fault(name, f"use a whole number from {least}")
    return value


def objects_in(fields: Object, name: str, *, count_max: int) -> Sequence[dict[str, Any]]:
    """Return a list of objects, an empty one where it is left out."""
    return objects(fields.get(name), name, count_max=count_max)


def objects(value: object, param: str, *, count_max: int) -> Sequence[dict[str, Any]]:
    """Return `value` as a list of objects, None as an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise fault(param, "use a list of objects")
    if len(value) > count_max:
        raise fault(param, f"{len(value)} entries; at most {count_max} are served")
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise fault(f"{param}.{number}", "use an object")
    return value


def is_whole_number(value: object) -> TypeGuard[int]:
    """Tell whether a stranger's figure is a whole number, and not below nothing."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
