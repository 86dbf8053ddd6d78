"""Streams of OpenAI's chat completions, in the shapes that servers send them."""

from collections.abc import Iterable, Mapping

from tests.model_upstream.golden import WAVE, Golden, Truth, data

WIRE = "openai_chat"
DONE = b"data: [DONE]\n\n"
_TRUTH = Truth(input_tokens=9, output_tokens=4)
_USER = [{"role": "user", "content": "Say hello."}]
_WORDS = ("Hel", "lo", " there", ".")


def chunk(
    *deltas: Mapping[str, object],
    finish: str | None = None,
    first_index: int = 0,
    **more: object,
) -> dict[str, object]:
    """Return a chunk with a delta for each choice from `first_index` on."""
    choices = [
        {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        for index, delta in enumerate(deltas, start=first_index)
    ]
    return {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
        "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": choices,
        **more,
    }


def usage(truth: Truth, output_tokens: int | None = None) -> dict[str, object]:
    written = truth.output_tokens if output_tokens is None else output_tokens
    return {
        "prompt_tokens": truth.input_tokens,
        "completion_tokens": written,
        "total_tokens": truth.input_tokens + written,
        "prompt_tokens_details": {"cached_tokens": truth.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def chat(
    name: str,
    chunks: Iterable[tuple[int, Mapping[str, object]]],
    *,
    truth: Truth = _TRUTH,
    reports: bool = True,
    text: str = "",
    ending: bytes = b"\n",
    **request: object,
) -> Golden:
    """Return a stream of chunks, each with the tokens that are written by its end."""
    held = list(chunks)
    if reports:
        held.append((truth.output_tokens, chunk(usage=usage(truth))))
    events = [data(value, ending=ending) for _, value in held]
    asked = {"model": "low", "messages": _USER, "stream": True, **request}
    if reports:
        asked["stream_options"] = {"include_usage": True}
    return Golden(
        name=name,
        wire=WIRE,
        events=(*events, b"data: [DONE]" + ending * 2),
        written=(*(written for written, _ in held), truth.output_tokens),
        truth=truth,
        reports=reports,
        text=text,
        request=asked,
    )


def _words(words: Iterable[str], *, name: str = "content") -> list[tuple[int, dict[str, object]]]:
    first = (0, chunk({"role": "assistant", "content": "", "refusal": None}))
    return [first, *((n, chunk({name: word})) for n, word in enumerate(words, start=1))]


def _text() -> Golden:
    last = (4, chunk({}, finish="stop"))
    return chat("text", [*_words(_WORDS), last], text="Hello there.")


def _cached() -> Golden:
    truth = Truth(input_tokens=9, output_tokens=4, cached_tokens=8)
    last = (4, chunk({}, finish="stop"))
    return chat("cached", [*_words(_WORDS), last], truth=truth, text="Hello there.")


def _silent() -> Golden:
    """No usage, as of servers that do not know stream_options."""
    last = (4, chunk({}, finish="stop"))
    return chat("no usage", [*_words(_WORDS), last], reports=False, text="Hello there.")


def _continuous() -> Golden:
    """Usage in each chunk, as vLLM sends it with continuous_usage_stats."""
    chunks = [
        (written, {**value, "usage": usage(_TRUTH, written)}) for written, value in _words(_WORDS)
    ]
    last = (4, {**chunk({}, finish="stop"), "usage": usage(_TRUTH)})
    return chat("continuous usage", [*chunks, last], text="Hello there.")


def _unicode() -> Golden:
    truth = Truth(input_tokens=9, output_tokens=len(WAVE))
    last = (len(WAVE), chunk({}, finish="stop"))
    return chat("unicode", [*_words(WAVE), last], truth=truth, text=WAVE)


def _carriage_returns() -> Golden:
    last = (4, chunk({}, finish="stop"))
    return chat("CR LF", [*_words(_WORDS), last], text="Hello there.", ending=b"\r\n")


def _tools() -> Golden:
    def call(index: int, *, name: str | None = None, arguments: str = "") -> dict[str, object]:
        function: dict[str, object] = {"arguments": arguments}
        made: dict[str, object] = {"index": index, "function": function}
        if name is not None:
            function["name"] = name
            made |= {"id": f"call_{index}", "type": "function"}
        return {"tool_calls": [made]}

    truth = Truth(input_tokens=60, output_tokens=24)
    chunks = [
        (8, chunk({"role": "assistant", "content": None, **call(0, name="get_weather")})),
        *((10 + n, chunk(call(0, arguments=part))) for n, part in enumerate(('{"city', '":"Kö'))),
        (13, chunk(call(0, arguments='ln"}'))),
        (20, chunk(call(1, name="get_time"))),
        (22, chunk(call(1, arguments="{}"))),
        (24, chunk({}, finish="tool_calls")),
    ]
    function = {"name": "get_weather", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    return chat("tool calls", chunks, truth=truth, tools=tools)


def _reasoning() -> Golden:
    """Reasoning that is shown, as DeepSeek's and vLLM's servers send it."""
    truth = Truth(input_tokens=9, output_tokens=7)
    shown = _words(("Think", "ing", "…"), name="reasoning_content")
    said = [(4 + n, chunk({"content": word})) for n, word in enumerate(_WORDS)]
    last = (7, chunk({}, finish="stop"))
    return chat("reasoning", [*shown, *said, last], truth=truth, text="Hello there.")


def _refusal() -> Golden:
    last = (4, chunk({}, finish="stop"))
    return chat("refusal", [*_words(("I", " can", "not", "."), name="refusal"), last])


def _choices() -> Golden:
    truth = Truth(input_tokens=9, output_tokens=8)
    chunks = [
        (0, chunk({"role": "assistant", "content": ""}, {"role": "assistant", "content": ""})),
        *(
            (2 * n + index + 1, chunk({"content": word}, first_index=index))
            for n, word in enumerate(_WORDS)
            for index in (0, 1)
        ),
        (8, chunk({}, finish="stop")),
        (8, chunk({}, finish="length", first_index=1)),
    ]
    return chat("two choices", chunks, truth=truth, text="Hello there.", n=2)


CHAT = (
    _text(),
    _cached(),
    _silent(),
    _continuous(),
    _unicode(),
    _carriage_returns(),
    _tools(),
    _reasoning(),
    _refusal(),
    _choices(),
)


def completion(truth: Truth = _TRUTH, **message: object) -> dict[str, object]:
    """Return a whole answer."""
    said = {"role": "assistant", "content": "Hello there.", "refusal": None, **message}
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": 1741569952,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage(truth),
        "service_tier": "default",
    }
