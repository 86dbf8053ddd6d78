"""Server-sent events, read and written; how a stream is cut into them is not this module's."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


def data_of(event: bytes) -> bytes:
    """Return the data of a whole event, empty where it has none: a comment, or only a name."""
    if event.startswith(b"data: "):
        # Almost every event: one line, and its blank one.
        data = event[6:].rstrip(b"\r\n")
        if b"\n" not in data and b"\r" not in data:
            return data
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    parts = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return b"\n".join(parts)


def object_of(data: bytes) -> dict[str, Any] | None:
    """Return the object that the data of an event is; None where it is something else."""
    try:
        try:
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            # Half of a surrogate pair is no text, but an official client reads it all the same.
            value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def texts_in(value: object) -> Iterator[str]:
    """Yield every text within a value, names aside."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case list() as items:
                left.extend(reversed(items))
            case dict() as members:
                left.extend(reversed(members.values()))
            case _:
                """What is no text is not written."""


def event_of(value: Mapping[str, object]) -> bytes:
    """Return an event that is named like its data's type."""
    data = json.dumps(value, separators=(",", ":")).encode()
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), data)


def text_bytes(text: str) -> int:
    """Return how long a text is in UTF-8, halves of surrogate pairs included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
