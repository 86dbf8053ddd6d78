"""What is wrong with a request, field by field, as its sender is told."""

from collections.abc import Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runtime.failures import Fault, Problem, invalid
from runtime.fault_words import nearest, plain_words

# A request can be wrong in more places than its sender can read about.
FAULTS_MAX = 20
_FIELD_CHARS_MAX = 200
# What pydantic adds where the key of an object is wrong and not its value.
_KEY = "[key]"
_OBJECT = "should be an object"
# Where JSON's words are others than the file's.
_JSON = {"dict_type": _OBJECT, "model_type": _OBJECT, "model_attributes_type": _OBJECT}


def fault_of(
    found: ErrorDetails, *, path: Sequence[str | int], shapes: Sequence[type[BaseModel]]
) -> Fault:
    """Return what was found at `path` of a request, without the value: it may be a secret.

    `shapes` are what the request may look like; an unknown field is told by their nearest.
    """
    parts = [part for part in path if part != _KEY]
    name = ".".join(map(str, parts))[:_FIELD_CHARS_MAX] or "body"
    if found["type"] == "extra_forbidden":
        return Fault(field=name, detail=nearest(shapes, parts, noun="field"))
    if found["type"] == "missing":
        return Fault(field=name, detail="is required")
    return Fault(field=name, detail=_JSON.get(found["type"]) or plain_words(found))


def faulty_body(error: ValidationError, shape: type[BaseModel]) -> Problem:
    """Return the problem of a body that was meant to look like `shape`."""
    found = error.errors(include_input=False)
    return invalid(
        *(fault_of(entry, path=entry["loc"], shapes=[shape]) for entry in found[:FAULTS_MAX])
    )
