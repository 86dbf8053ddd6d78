"""A chat completion as it is asked for: what decides who serves it and what it may cost.

What Flyball does not read is the provider's to judge. What is known to cost other than a tier's
price says is noted, and refused by every tier that does not say that it serves it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from governor.tiers import Extra, PromptFacts
from runtime.model_gateway.model_request import (
    Asked,
    ImagePart,
    ModelRequest,
    Uncounted,
    WireName,
)
from runtime.model_gateway.wires.extras import image_at
from runtime.model_gateway.wires.fields import (
    body_in,
    fault,
    flag_in,
    model_in,
    objects_in,
    tokens_in,
)

MESSAGES_MAX = 16_384
TOOLS_MAX = 512
CHOICES_MAX = 128
ROLE_CHARS_MAX = 32

Fields = dict[str, Any]

_COSTLY = {
    **dict.fromkeys(
        ("web_search_options", "search_parameters", "enable_search", "plugins", "mcp_servers"),
        Extra.SERVER_TOOLS,
    ),
    **dict.fromkeys(("models", "provider", "route"), Extra.OTHER_MODELS),
    "audio": Extra.AUDIO,
    "prediction": Extra.PREDICTION,
}
_CAPS = ("max_completion_tokens", "max_tokens")
# What servers of one's own take for no limit at all.
_NO_CAP = -1
_NOT_ASKED: tuple[object, ...] = (None, False, [])
_SERVICE_TIERS = ("auto", "default", "flex")
_OWN_TOOLS = ("function", "custom")
_TEXTS = {"text": "text", "refusal": "refusal"}
_SOUNDS = ("input_audio", "audio_url")
_INSTRUCTIONS = ("system", "developer")


def parse_chat(content: bytes) -> ModelRequest:
    """Return the request in `content`.

    Raises:
        InvalidRequestError: it is no chat completion that can be served.
    """
    fields = body_in(content)
    for name in _CAPS:
        if fields.get(name) == _NO_CAP:
            del fields[name]
    messages = objects_in(fields, "messages", count_max=MESSAGES_MAX)
    if not messages:
        raise fault("messages", "at least one message is needed")
    tools = objects_in(fields, "tools", count_max=TOOLS_MAX)
    functions = objects_in(fields, "functions", count_max=TOOLS_MAX)
    heard = _Heard()
    for place, message in enumerate(messages):
        heard.hear(place, message)
    return ModelRequest(
        wire=WireName.OPENAI_CHAT,
        model=model_in(fields),
        fields=fields,
        body_bytes=len(content),
        is_streamed=flag_in(fields, "stream"),
        asks_for_usage=_asks_for_usage(fields),
        output_tokens_asked=_asked(fields),
        messages_count=len(messages),
        opening="\n".join(heard.opening),
        facts=PromptFacts(
            text=heard.last_user,
            chars=heard.chars,
            has_tools=bool(tools or functions),
        ),
        choices=_choices(fields),
        tools_count=len(tools) + len(functions),
        images=tuple(heard.images),
        extras=(*_extras(fields), *_tool_extras(tools), *heard.extras),
        uncounted=tuple(heard.uncounted),
        writes_cache=heard.writes_cache or any("cache_control" in tool for tool in tools),
    )


class _Heard:
    """What is gathered from the messages, read once."""

    __slots__ = (
        "chars", "extras", "images", "is_open", "last_user", "opening", "uncounted", "writes_cache",
    )  # fmt: skip

    def __init__(self) -> None:
        self.chars = 0
        self.last_user = ""
        self.opening: list[str] = []
        self.is_open = True
        self.images: list[ImagePart] = []
        self.extras: list[Asked] = []
        self.uncounted: list[Uncounted] = []
        self.writes_cache = False

    def hear(self, place: int, message: Fields) -> None:
        """Take the next message."""
        role = message.get("role")
        if not isinstance(role, str) or not 0 < len(role) <= ROLE_CHARS_MAX:
            raise fault(f"messages.{place}.role", "a role is required, as a short string")
        if message.get("audio") is not None:
            self.extras.append(Asked(extra=Extra.AUDIO, param=f"messages.{place}"))
        if "cache_control" in message:
            self.writes_cache = True
        text = self._text(place, message.get("content"))
        self.chars += len(text)
        if role == "user":
            self.last_user = text
            if self.is_open:
                self.opening.append(text)
        elif role not in _INSTRUCTIONS:
            self.is_open = False

    def _text(self, place: int, content: object) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        where = f"messages.{place}.content"
        if not isinstance(content, list):
            raise fault(where, "use a string or a list of parts")
        return "\n".join(self._texts(where, content))

    def _texts(self, where: str, parts: list[object]) -> Iterator[str]:
        for part in parts:
            if not isinstance(part, dict):
                raise fault(where, "use an object for each part")
            kind = part.get("type")
            if "cache_control" in part:
                self.writes_cache = True
            if kind == "image_url":
                self.images.append(_image(where, part.get("image_url")))
            elif isinstance(kind, str) and kind in _TEXTS:
                yield str(part.get(_TEXTS[kind]) or "")
            else:
                if kind in _SOUNDS:
                    self.extras.append(Asked(extra=Extra.AUDIO, param=where))
                self.uncounted.append(Uncounted(param=where, what=f"a part of type {kind!r:.40}"))


def _extras(fields: Fields) -> Iterator[Asked]:
    """Yield what costs extra of the fields that are not messages or tools."""
    for name, extra in _COSTLY.items():
        if fields.get(name) not in _NOT_ASKED:
            yield Asked(extra=extra, param=name)
    if fields.get("modalities") not in (None, ["text"]):
        yield Asked(extra=Extra.AUDIO, param="modalities")
    if fields.get("service_tier") not in (None, *_SERVICE_TIERS):
        yield Asked(extra=Extra.PRIORITY, param="service_tier")


def _tool_extras(tools: Iterable[Fields]) -> Iterator[Asked]:
    for tool in tools:
        if tool.get("type") not in _OWN_TOOLS:
            yield Asked(extra=Extra.SERVER_TOOLS, param="tools")


def _image(where: str, value: object) -> ImagePart:
    about: Fields = value if isinstance(value, dict) else {"url": value}
    url, detail = about.get("url"), about.get("detail")
    if not isinstance(url, str):
        raise fault(where, "use image_url with a url, as a string")
    return image_at(url, where, detail=detail if isinstance(detail, str) else "auto")


def _asked(fields: Fields) -> int | None:
    """Return the output that the client allows: the larger of its two words for it."""
    asked = [tokens_in(fields, name, least=1) for name in _CAPS]
    return max((tokens for tokens in asked if tokens is not None), default=None)


def _choices(fields: Fields) -> int:
    # "n_cmpl" is what llama.cpp calls it as well.
    choices = max(tokens_in(fields, name, least=1) or 1 for name in ("n", "n_cmpl"))
    if (tokens_in(fields, "best_of", least=1) or 1) > choices:
        raise fault("best_of", "choices that are written and not shown are not served")
    if choices > CHOICES_MAX:
        raise fault("n", f"at most {CHOICES_MAX} choices are served")
    return choices


def _asks_for_usage(fields: Fields) -> bool:
    options = fields.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise fault("stream_options", "use an object")
    return options is not None and options.get("include_usage") is True
