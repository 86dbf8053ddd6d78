"""What a provider's error says, read from any of the shapes in which servers write errors."""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.providing.failure import NO_COMPLAINT, Complaint
from runtime.model_gateway.strict_json import object_in

# Words that anything is decided by are short; a message is looked at no further than this.
_WORD_CHARS_MAX = 64
_MESSAGE_CHARS_MAX = 4_096
_STATUSES = range(400, 600)
_WRITTEN_STATUSES = {str(status): status for status in _STATUSES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an error says; `status` is the one that it names for itself, None for most."""

    complaint: Complaint = NO_COMPLAINT
    status: int | None = None


def said_in(content: bytes) -> Said:
    """Return what the error in a body says; nothing where it cannot be read."""
    try:
        body: Mapping[str, object] = object_in(content)
    except ValueError:
        return Said()
    error = body.get("error")
    response = body.get("response")
    if error is None and isinstance(response, Mapping):
        error = response.get("error")  # as the responses API ends a stream that failed
    # Some servers write the error itself in place of an object that holds it.
    inner = error if isinstance(error, Mapping) else body
    code, message = inner.get("code"), inner.get("message")
    if isinstance(error, str):
        message = error
    return Said(
        complaint=Complaint(
            code=_word(code),
            kind=_word(inner.get("type")),
            message=message[:_MESSAGE_CHARS_MAX] if isinstance(message, str) else "",
        ),
        status=_status(code) or _status(inner.get("status")),
    )


def _word(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _WORD_CHARS_MAX else ""


def _status(value: object) -> int | None:
    if isinstance(value, str):
        return _WRITTEN_STATUSES.get(value)
    # A truth value is no number here, though 1 is True.
    return value if type(value) is int and value in _STATUSES else None
