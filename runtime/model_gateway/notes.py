"""A note of the gateway's own among a conversation's instructions."""

from collections.abc import Mapping, Sequence
from typing import Any

_INSTRUCTING = ("system", "developer")


def with_note(messages: Sequence[Mapping[str, Any]], note: str) -> list[dict[str, Any]]:
    """Return the conversation with `note` at the end of its opening instructions.

    Not at the end of the conversation: many chat templates refuse instructions that come
    later than the opening, or more than one message of them.
    """
    told = [dict(message) for message in messages]
    opening = 0
    while opening < len(told) and told[opening].get("role") in _INSTRUCTING:
        opening += 1
    if opening == 0:
        return [{"role": "system", "content": note}, *told]
    last = told[opening - 1]
    content = last.get("content")
    if isinstance(content, list):
        last["content"] = [*content, {"type": "text", "text": note}]
    else:
        last["content"] = f"{content}\n\n{note}" if content else note
    return told
