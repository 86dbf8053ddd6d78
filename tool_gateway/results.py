"""What a tool answered, as plain JSON values that no protocol library owns."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from governor.amounts import NOTHING
from governor.call import CallStatus, Isolated
from governor.usage import Usage

Json = Mapping[str, object]

OUR_META = "flyball/"
DENIAL_META = "flyball/denial"
BUDGET_META = "flyball/budget"
CALL_META = "flyball/call"
COST_META = "flyball/cost_microusd"
ARCHIVE_META = "flyball/archive"
LOOP_META = "flyball/loop"
GATE_META = "flyball/gate"
GRANTED_META = "flyball/granted"
CACHE_META = "flyball/cache"
IDEMPOTENCY_META = "flyball/idempotency_key"
REDACTED_META = "flyball/redacted"
SCHEMA_META = "flyball/schema"
EXPERIENCE_META = "flyball/experience"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A tool's answer: content blocks, structured content and `_meta` as the wire has them.

    `structured` is None when the tool gave none. `closing` is a last line that the model
    must see whatever is cut before it: how a command ended, for one. `notes` are what the
    gateway itself tells the model, in blocks of their own after the tool's. `reported_cost`
    is what an upstream says that the call cost, unchecked; it never reaches a client. `extra`
    is what else the answer says, as members beside these. `fault` is the error of the protocol
    that the upstream answered with instead; the rest then says so in words.
    """

    content: tuple[Json, ...]
    structured: object = None
    is_error: bool = False
    meta: Json = field(default_factory=dict)
    closing: str | None = None
    reported_cost: object = None
    notes: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict)
    fault: "Fault | None" = None

    @property
    def is_interim(self) -> bool:
        """Tell whether this is no outcome yet: a question, or a task that goes on."""
        return self.extra.get("resultType", "complete") != "complete"

    @property
    def size_bytes(self) -> int:
        """Return the size of what the model would read, in bytes of UTF-8.

        Clients show a model the content or the structured content, so the larger counts.
        """
        shown = sum(len(_block_text(block).encode()) for block in self.content)
        return max(shown, 0 if self.structured is None else len(_json(self.structured).encode()))

    @property
    def text_chars(self) -> int:
        """Return the length of what the model would read, its last line included."""
        shown = sum(len(_block_text(block)) for block in self.content)
        structured = 0 if self.structured is None else len(_json(self.structured))
        return max(shown, structured) + len(self.closing or "")

    @property
    def sole_text(self) -> str | None:
        """Return the text when the answer is one text block, else None."""
        if len(self.content) == 1 and self.content[0].get("type") == "text":
            return str(self.content[0]["text"])
        return None

    @property
    def _last(self) -> tuple[Json, ...]:
        closing = () if self.closing is None else (text_block(self.closing),)
        return (*closing, *(text_block(note) for note in self.notes))

    def with_meta(self, **entries: object) -> "ToolResult":
        """Return the result with `entries` added to `_meta`; None values are left out."""
        added = {key: value for key, value in entries.items() if value is not None}
        return replace(self, meta={**self.meta, **added})

    def with_note(self, note: str | None) -> "ToolResult":
        """Return the result with one more note of the gateway's; None adds nothing."""
        return self if note is None else replace(self, notes=(*self.notes, note))

    def to_wire(self) -> dict[str, object]:
        """Return the result as the body of a `tools/call` response."""
        wire: dict[str, object] = dict(self.extra)
        if not self.is_interim:
            wire["content"] = [dict(block) for block in (*self.content, *self._last)]
            wire["isError"] = self.is_error
        if self.structured is not None:
            wire["structuredContent"] = self.structured
        if self.meta:
            wire["_meta"] = dict(self.meta)
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error of the protocol, as an upstream answered with it."""

    code: int
    words: str
    data: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a backend ended a call; `usage` holds only what the backend itself measured.

    `price_microusd` is what the call costs beside the price that its rule says.
    """

    result: ToolResult
    status: CallStatus = CallStatus.OK
    usage: Usage = field(default_factory=lambda: Usage(measured=NOTHING))
    isolated: Isolated | None = None
    detail: str = ""
    price_microusd: int = 0


def text_block(text: str) -> Json:
    """Return `text` as a content block."""
    return {"type": "text", "text": text}


def text_result(text: str, *, is_error: bool = False, meta: Json | None = None) -> ToolResult:
    """Return a result of one text block."""
    return ToolResult(content=(text_block(text),), is_error=is_error, meta=meta or {})


def _block_text(block: Json) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    return _json(block)


# Made once: what `json.dumps` is asked for beyond its defaults, it makes an encoder for.
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str).encode
