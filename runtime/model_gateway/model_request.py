"""A model request as it arrives, and as it is sent to the provider of a tier."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from governor.tiers import Extra, PromptFacts

# With these a provider reads on its own what nobody has sent.
_READS_MORE = frozenset(
    {Extra.SERVER_TOOLS, Extra.OTHER_MODELS, Extra.COMPACTION, Extra.STORED_PROMPT}
)


class WireName(StrEnum):
    """The wire formats that are served."""

    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    OPENAI_EMBEDDINGS = "openai_embeddings"
    ANTHROPIC_MESSAGES = "anthropic_messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image in a request; its size is None where only the provider will see it."""

    detail: str = "auto"
    width: int | None = None
    height: int | None = None
    encoded_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Something beyond the price of tokens, and the field that asks for it."""

    extra: Extra
    param: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Something that the provider holds, whose tokens nobody can count from the request."""

    param: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What gave way in a request before it was sent on: `asked` is all that the client sent.

    So many results of tools were replaced by their index, and so many turns by a report.
    """

    asked: Mapping[str, Any]
    results: int
    turns: int
    tokens_saved: int

    @property
    def words(self) -> str:
        """Return what the record says of it."""
        return (
            f"compacted: {self.results} results and {self.turns} turns kept aside, about "
            f"{self.tokens_saved} tokens saved"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request that can be served: what is read of it, and all that was sent.

    `model` is as the client named it. `asks_for_usage` is true where the wire always reports it.
    `output_tokens_asked` is for one choice: None leaves it to the tier, embeddings have 0.
    `opening` is what users said before anything was answered. `fields` is never changed.
    `more_tokens` is what the provider adds beyond what the bytes of the request stand for.
    """

    wire: WireName
    model: str
    fields: dict[str, Any]
    body_bytes: int
    is_streamed: bool
    asks_for_usage: bool
    output_tokens_asked: int | None
    messages_count: int
    opening: str
    facts: PromptFacts
    choices: int = 1
    tools_count: int = 0
    images: tuple[ImagePart, ...] = ()
    extras: tuple[Asked, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    more_tokens: int = 0
    writes_cache: bool = False
    # Of the client's own headers those that mean something to the provider, in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    # What stands in it by its index alone; None where it is as it came.
    compacted: Compacted | None = None

    @property
    def has_bounded_input(self) -> bool:
        """Tell whether the provider reads no more than what it is sent."""
        return not any(one.extra in _READS_MORE for one in self.extras)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What is sent to the provider, with the most that it can be billed for.

    `output_tokens_max` is for all choices together, hidden reasoning included. `strips_usage`:
    the usage was asked for by us alone, so its own event is not relayed. `output_caps` are the
    fields that bound the output, where servers differ in which they know.
    """

    request: ModelRequest
    model: str
    content: bytes
    input_tokens_max: int
    output_tokens_max: int
    strips_usage: bool = False
    output_caps: tuple[str, ...] = ()
