"""Streams of Anthropic's messages, in the shapes that the API sends them."""

from collections.abc import Iterable, Mapping

from tests.model_upstream.golden import WAVE, Golden, Truth, named

WIRE = "anthropic_messages"
_TRUTH = Truth(input_tokens=25, output_tokens=15)
_USER = [{"role": "user", "content": "Say hello."}]
_MODEL = "claude-sonnet-4-5-20250929"
Events = list[tuple[int, Mapping[str, object]]]


def usage(truth: Truth, output_tokens: int) -> dict[str, object]:
    """Return the figures as Anthropic splits them: what was cached is not in input_tokens."""
    fresh = truth.input_tokens - truth.cached_tokens - truth.cache_write_tokens
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": truth.cache_write_tokens,
        "cache_read_input_tokens": truth.cached_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": truth.cache_write_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def start(truth: Truth) -> dict[str, object]:
    message = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": _MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(truth, 1),
    }
    return {"type": "message_start", "message": message}


def block(index: int, opened: Mapping[str, object], deltas: Iterable[tuple[int, object]]) -> Events:
    """Return a block's events; each delta has the tokens that are written by its end."""
    held = list(deltas)
    first = held[0][0] - 1 if held else 1
    return [
        (first, {"type": "content_block_start", "index": index, "content_block": opened}),
        *(
            (written, {"type": "content_block_delta", "index": index, "delta": delta})
            for written, delta in held
        ),
        (held[-1][0] if held else first, {"type": "content_block_stop", "index": index}),
    ]


def end(truth: Truth, reason: str) -> Events:
    delta = {"stop_reason": reason, "stop_sequence": None}
    figures = {"output_tokens": truth.output_tokens}
    return [
        (truth.output_tokens, {"type": "message_delta", "delta": delta, "usage": figures}),
        (truth.output_tokens, {"type": "message_stop"}),
    ]


def messages(
    name: str,
    events: Events,
    *,
    truth: Truth = _TRUTH,
    reason: str = "end_turn",
    text: str = "",
    **request: object,
) -> Golden:
    held = [(1, start(truth)), (1, {"type": "ping"}), *events, *end(truth, reason)]
    asked = {"model": "low", "max_tokens": 512, "messages": _USER, "stream": True, **request}
    return Golden(
        name=name,
        wire=WIRE,
        events=tuple(named(value) for _, value in held),
        written=tuple(written for written, _ in held),
        truth=truth,
        text=text,
        request=asked,
    )


def _say(words: Iterable[str], *, after: int = 1, index: int = 0) -> Events:
    deltas = (
        (written, {"type": "text_delta", "text": word})
        for written, word in enumerate(words, start=after + 1)
    )
    return block(index, {"type": "text", "text": ""}, deltas)


def _arguments(index: int, name: str, parts: Iterable[tuple[int, str]]) -> Events:
    opened = {"type": "tool_use", "id": f"toolu_0{index}", "name": name, "input": {}}
    deltas = [(written, {"type": "input_json_delta", "partial_json": p}) for written, p in parts]
    return block(index, opened, deltas)


def _text() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=6)
    words = ("Hello", " the", "re", ".")
    return messages("text", _say(words), truth=truth, text="Hello there.")


def _cached() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=6, cached_tokens=12, cache_write_tokens=8)
    control = {"type": "ephemeral"}
    system = [{"type": "text", "text": "Be short." * 9, "cache_control": control}]
    words = ("Hello", " the", "re", ".")
    return messages("cached", _say(words), truth=truth, text="Hello there.", system=system)


def _unicode() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=len(WAVE) + 2)
    return messages("unicode", _say(WAVE), truth=truth, text=WAVE)


def _tools() -> Golden:
    truth = Truth(input_tokens=400, output_tokens=72)
    events = [
        *_say(("Let", " me", " look", "."), after=1),
        *_arguments(1, "get_weather", [(14, ""), (20, '{"city":'), (24, ' "Kö'), (28, 'ln"}')]),
        *_arguments(2, "get_time", [(45, ""), (52, "{}")]),
    ]
    tools = [{"name": "get_weather", "description": "Weather.", "input_schema": {"type": "object"}}]
    return messages(
        "tool use", events, truth=truth, reason="tool_use", text="Let me look.", tools=tools
    )


def _thinking() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=120)
    shown = [
        (40, {"type": "thinking_delta", "thinking": "They want a "}),
        (80, {"type": "thinking_delta", "thinking": "greeting 🤔."}),
        (100, {"type": "signature_delta", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}),
    ]
    events = [
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, shown),
        *_say(("Hello", "."), after=110, index=1),
    ]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    return messages(
        "thinking", events, truth=truth, text="Hello.", thinking=thinking, max_tokens=2048
    )


def _redacted() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=90)
    opened = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"}
    # It comes whole, after all of it was written.
    hidden = [(80, event) for _, event in block(0, opened, [])]
    events = [*hidden, *_say(("Hello", "."), after=80, index=1)]
    return messages("redacted thinking", events, truth=truth, text="Hello.")


def _refusal() -> Golden:
    truth = Truth(input_tokens=25, output_tokens=4)
    return messages("refusal", _say(("I", " can")), truth=truth, reason="refusal", text="I can")


MESSAGES = (_text(), _cached(), _unicode(), _tools(), _thinking(), _redacted(), _refusal())


def message(truth: Truth = _TRUTH, **more: object) -> dict[str, object]:
    """Return a whole answer."""
    return {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": _MODEL,
        "content": [{"type": "text", "text": "Hello there."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage(truth, truth.output_tokens),
        **more,
    }
