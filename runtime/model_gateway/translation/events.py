"""Server-sent events as objects: what a provider sends is read, what a client gets is written."""

import json
from collections.abc import Mapping
from typing import Any

from runtime.model_gateway.strict_json import object_in

DONE = b"data: [DONE]\n\n"
_DONE = b"[DONE]"


def object_of(event: bytes) -> dict[str, Any] | None:
    """Return the object in an event; None where there is none that can be read."""
    try:
        return object_in(_data_of(event))
    except ValueError:
        return None


def is_done(event: bytes) -> bool:
    """Tell whether an event is the last of a stream of chat."""
    return _data_of(event).strip() == _DONE


def written(told: Mapping[str, Any], *, name: str | None = None) -> bytes:
    """Return an event that holds `told`, under a name where its wire has names."""
    # Escaped to ASCII, because a provider may have sent half of a surrogate pair.
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(told, separators=(',', ':'))}\n\n".encode()


def _data_of(event: bytes) -> bytes:
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    data = (line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    return b"\n".join(data)
