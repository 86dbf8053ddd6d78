"""A chat request as it arrives, and as it is sent to the provider of a tier."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from governor.tiers import ModelTier, PromptFacts
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.notes import with_note
from runtime.model_gateway.strict_json import object_in

MESSAGES_MAX = 2_048
TOOLS_MAX = 512
CHOICES_MAX = 128
# Field, index, field: where a fault is, without pydantic's names for the parts of a union.
_PARAM_PARTS_MAX = 3

# A token stands for at least one byte of what is sent, so the bytes bound the text's tokens.
# What providers add around messages and tools is small; these are several times as much.
_TOKENS_PER_REQUEST = 64
_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_TOOL = 64
_TOKENS_WITH_TOOLS = 512

# An allow-list, because providers keep inventing fields that cost extra: searches, plugins,
# other models to fall back to, paid caches. None of these changes what a token costs.
_SERVED = frozenset(
    {
        *("messages", "model", "stream", "n", "stop", "seed", "temperature", "top_p", "user"),
        *("frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"),
        *("max_tokens", "max_completion_tokens", "response_format", "modalities", "verbosity"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
        *("metadata", "reasoning_effort", "safety_identifier", "prompt_cache_key", "store"),
        "service_tier",
    }
)
_SERVED_IN_TOOL = frozenset({"type", "function"})
_UNPRICED_IN_MESSAGE = ("audio", "cache_control")
_TEXT_PARTS = {"text": "text", "refusal": "refusal"}
_SERVICE_TIERS = ("auto", "default", "flex")
_INSTRUCTIONS = ("system", "developer")
_CAPS = ("max_completion_tokens", "max_tokens")

Tokens = Annotated[int, Field(ge=1)]


class _Body(BaseModel):
    """Part of a request; what Flyball does not read is the provider's to judge."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Message(_Body):
    """One message of the conversation."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: str | list[dict[str, Any]] | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_priced(cls, value: object) -> object:
        if isinstance(value, dict):
            for name in _UNPRICED_IN_MESSAGE:
                if value.get(name) is not None:
                    raise ValueError(f"{name} is not served: the price of a tier does not cover it")
        return value

    @field_validator("content")
    @classmethod
    def _is_text(cls, value: str | list[dict[str, Any]] | None) -> object:
        for part in value if isinstance(value, list) else ():
            if part.get("type") not in _TEXT_PARTS:
                raise ValueError(
                    "only text is served yet: the tokens of an image, a sound or a file cannot be "
                    "bounded before the call"
                )
            more = part.keys() - {"type", part["type"]}
            if more:
                raise ValueError(f"{min(more)!r} is not served beside the text of a part")
        return value

    @property
    def text(self) -> str:
        """Return the words of the message."""
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n".join(str(part.get(_TEXT_PARTS[part["type"]], "")) for part in self.content)


class ChatBody(_Body):
    """The fields that decide which tier serves a request and what it may cost."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[Message], Field(min_length=1, max_length=MESSAGES_MAX)]
    tools: Annotated[list[dict[str, Any]], Field(max_length=TOOLS_MAX)] | None = None
    functions: Annotated[list[dict[str, Any]], Field(max_length=TOOLS_MAX)] | None = None
    n: Annotated[int, Field(ge=1, le=CHOICES_MAX)] | None = None
    max_completion_tokens: Tokens | None = None
    max_tokens: Tokens | None = None
    stream: bool | None = None

    @field_validator("tools")
    @classmethod
    def _are_functions(cls, value: list[dict[str, Any]] | None) -> object:
        for tool in value or ():
            if tool.get("type") != "function":
                raise ValueError(
                    'only tools of type "function" are served: the price of a tier does not cover '
                    "those that the provider runs"
                )
            more = tool.keys() - _SERVED_IN_TOOL
            if more:
                raise ValueError(f"{min(more)!r} is not served beside a tool's function")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request that can be served: the fields that are read, and all that were sent."""

    read: ChatBody
    fields: dict[str, Any]
    body_bytes: int

    @property
    def tools_count(self) -> int:
        """Return how many tools the model is offered."""
        return len(self.read.tools or ()) + len(self.read.functions or ())

    @property
    def opening(self) -> str:
        """Return what users said before anything was answered; what tools answer comes later."""
        said: list[str] = []
        for message in self.read.messages:
            if message.role == "user":
                said.append(message.text)
            elif message.role not in _INSTRUCTIONS:
                break
        return "\n".join(said)

    @property
    def facts(self) -> PromptFacts:
        """Return what the tier rules look at: the last user message, and the whole length."""
        messages = self.read.messages
        users = [message for message in messages if message.role == "user"]
        return PromptFacts(
            text=users[-1].text.lower() if users else "",
            chars=sum(len(message.text) for message in messages),
            has_tools=self.tools_count > 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What is sent to the provider, with the most that it can be billed for."""

    content: bytes
    input_tokens_max: int
    output_tokens_max: int


def parse_chat(content: bytes) -> ChatRequest:
    """Return the request in `content`.

    Raises:
        InvalidRequestError: it is not a chat request, or asks for what is not served.
    """
    try:
        fields = object_in(content)
    except ValueError as error:
        raise InvalidRequestError(f"The body cannot be read as JSON: {error}") from error
    try:
        read = ChatBody.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = ".".join(str(part) for part in fault["loc"][:_PARAM_PARTS_MAX])
        message = fault["msg"].removeprefix("Value error, ")
        raise InvalidRequestError(f"{param}: {message}", param=param) from error
    _refuse_unserved(read, fields)
    return ChatRequest(read=read, fields=fields, body_bytes=len(content))


def payload_for(request: ChatRequest, tier: ModelTier, *, note: str | None = None) -> Payload:
    """Return `request` as `tier` serves it: its model, and no more output than it allows.

    `note` is told to the model with its instructions, and counted like them.

    Raises:
        InvalidRequestError: a text cannot be written in UTF-8.
    """
    read = request.read
    asked = {"max_completion_tokens": read.max_completion_tokens, "max_tokens": read.max_tokens}
    # The client's own field is kept, because servers differ in which of the two they know.
    caps = {
        name: min(tokens, tier.output_tokens_max)
        for name, tokens in asked.items()
        if tokens is not None
    } or {"max_completion_tokens": tier.output_tokens_max}
    kept = {
        name: value
        for name, value in request.fields.items()
        if name in _SERVED and name not in _CAPS
    }
    fields = {**kept, "model": tier.model, **caps}
    if note is not None:
        fields["messages"] = with_note(request.fields["messages"], note)
    try:
        content = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            "The body holds half of a surrogate pair, which is no text."
        ) from (error)
    around = (
        _TOKENS_PER_REQUEST
        + _TOKENS_PER_MESSAGE * len(fields["messages"])
        + _TOKENS_PER_TOOL * request.tools_count
        + (_TOKENS_WITH_TOOLS if request.tools_count else 0)
    )
    return Payload(
        content=content,
        input_tokens_max=len(content) + around,
        output_tokens_max=max(caps.values()) * (read.n or 1),
    )


def _refuse_unserved(read: ChatBody, fields: dict[str, Any]) -> None:
    """Refuse what is not served yet, and what would cost other than the tier's price says."""
    if read.stream:
        raise InvalidRequestError(
            "stream: streaming is not served yet; send stream = false.", param="stream"
        )
    for name, value in fields.items():
        if name not in _SERVED and value is not None:
            raise InvalidRequestError(
                f"{name:.80}: is not served, because the price of a tier may not cover it; "
                "leave it out.",
                param=name[:80],
            )
    if fields.get("modalities") not in (None, ["text"]):
        raise InvalidRequestError('modalities: only ["text"] is served yet.', param="modalities")
    if fields.get("service_tier") not in (None, *_SERVICE_TIERS):
        raise InvalidRequestError(
            f"service_tier: use one of {', '.join(_SERVICE_TIERS)}; others cost more than the "
            "price of the tier says.",
            param="service_tier",
        )
