"""Errors in OpenAI's envelope."""

from collections.abc import Mapping

import msgspec

from runtime.model_gateway.answer import Answer, json_answer

STOPPED = "call_stopped"


def openai_error(
    status: int,
    message: str,
    *,
    kind: str,
    code: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return an error as OpenAI's clients read it."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json_answer(status, {"error": error}, headers=headers)


def openai_error_event(message: str, *, code: str) -> bytes:
    """Return the event that an official client raises as an error in the middle of a stream."""
    kind = "flyball_stopped" if code == STOPPED else "provider_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return b"data: %b\n\n" % msgspec.json.encode({"error": error})
