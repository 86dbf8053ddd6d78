"""A stream or an answer as providers send it, with what is true of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

WAVE = "Grüße — 你好, мир 👩‍🚀🚀"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the provider bills; of the input, so much was read from and written to its cache."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A streamed answer.

    `written` says how many tokens were written by the end of each event. `reports` is whether
    the provider's usage is in it; `text` is what a reader of the whole stream reads.
    """

    name: str
    wire: str
    events: tuple[bytes, ...]
    truth: Truth
    written: tuple[int, ...] = ()
    reports: bool = True
    text: str = ""
    request: Mapping[str, object] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        """Return the whole stream."""
        return b"".join(self.events)


def data(value: object, *, ending: bytes = b"\n") -> bytes:
    """Return an event that has only data, as OpenAI's chat streams have."""
    return b"data: %b%b%b" % (compact(value), ending, ending)


def named(value: Mapping[str, object]) -> bytes:
    """Return an event that is named like its data's type."""
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), compact(value))


def compact(value: object) -> bytes:
    """Return JSON as providers write it: characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
