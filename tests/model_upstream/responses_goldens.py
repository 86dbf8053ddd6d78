"""Streams of OpenAI's responses, in the shapes that the API sends them."""

from collections.abc import Iterable, Mapping

from tests.model_upstream.golden import WAVE, Golden, Truth, named

WIRE = "openai_responses"
_TRUTH = Truth(input_tokens=37, output_tokens=11)
_ID = "resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654"
Events = list[tuple[int, Mapping[str, object]]]


def usage(truth: Truth, *, reasoning_tokens: int = 0) -> dict[str, object]:
    return {
        "input_tokens": truth.input_tokens,
        "input_tokens_details": {
            "cached_tokens": truth.cached_tokens,
            "cache_write_tokens": truth.cache_write_tokens,
        },
        "output_tokens": truth.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": truth.input_tokens + truth.output_tokens,
    }


def response(**more: object) -> dict[str, object]:
    """Return a response as it stands, by default at its beginning."""
    return {
        "id": _ID,
        "object": "response",
        "created_at": 1741290958,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "You are a helpful assistant.",
        "max_output_tokens": None,
        "metadata": {},
        "model": "gpt-4.1-2025-04-14",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        **more,
    }


def responses(
    name: str,
    items: Iterable[tuple[Events, Mapping[str, object]]],
    *,
    truth: Truth = _TRUTH,
    end: str = "completed",
    text: str = "",
    **request: object,
) -> Golden:
    """Return a stream of items, each with its events and what it is at the end."""
    held = list(items)
    ended = response(status=end, output=[item for _, item in held], usage=usage(truth))
    if end == "incomplete":
        ended["incomplete_details"] = {"reason": "max_output_tokens"}
    events: Events = [
        (0, {"type": "response.created", "response": response()}),
        (0, {"type": "response.in_progress", "response": response()}),
        *(event for events, _ in held for event in events),
        (truth.output_tokens, {"type": f"response.{end}", "response": ended}),
    ]
    numbered = [
        named({**value, "sequence_number": number}) for number, (_, value) in enumerate(events)
    ]
    return Golden(
        name=name,
        wire=WIRE,
        events=tuple(numbered),
        written=tuple(written for written, _ in events),
        truth=truth,
        text=text,
        request={"model": "low", "input": "Say hello.", "stream": True, **request},
    )


def _place(index: int, item_id: str) -> dict[str, object]:
    return {"output_index": index, "item_id": item_id, "content_index": 0}


def _said(
    words: Iterable[str], *, index: int = 0, after: int = 0, kind: str = "output_text"
) -> tuple[Events, Mapping[str, object]]:
    """Return a message's events and itself; a token for each word."""
    held = list(words)
    member = "refusal" if kind == "refusal" else "text"
    item_id, whole, ends = f"msg_{index}", "".join(held), after + len(held)
    more = {} if kind == "refusal" else {"annotations": [], "logprobs": []}
    item = {"id": item_id, "type": "message", "role": "assistant"}
    part = {"type": kind, member: whole, **more}
    place = _place(index, item_id)
    logprobs = {} if kind == "refusal" else {"logprobs": []}
    done = {**item, "status": "completed", "content": [part]}
    added = {**item, "status": "in_progress", "content": []}
    events: Events = [
        (after, {"type": "response.output_item.added", "output_index": index, "item": added}),
        (after, {"type": "response.content_part.added", **place, "part": {**part, member: ""}}),
        *(
            (
                after + number,
                {"type": f"response.{kind}.delta", **place, "delta": word, **logprobs},
            )
            for number, word in enumerate(held, start=1)
        ),
        (ends, {"type": f"response.{kind}.done", **place, member: whole, **logprobs}),
        (ends, {"type": "response.content_part.done", **place, "part": part}),
        (ends, {"type": "response.output_item.done", "output_index": index, "item": done}),
    ]
    return events, done


def _called(
    name: str, parts: Iterable[tuple[int, str]], *, index: int = 0
) -> tuple[Events, Mapping[str, object]]:
    held = list(parts)
    arguments = "".join(part for _, part in held)
    item_id = f"fc_{index}"
    item = {"id": item_id, "type": "function_call", "call_id": f"call_{index}", "name": name}
    done = {**item, "status": "completed", "arguments": arguments}
    added = {**item, "status": "in_progress", "arguments": ""}
    place = {"output_index": index, "item_id": item_id}
    first, last = held[0][0] - 1, held[-1][0]
    kind = "response.function_call_arguments"
    events: Events = [
        (first, {"type": "response.output_item.added", "output_index": index, "item": added}),
        *((written, {"type": f"{kind}.delta", **place, "delta": part}) for written, part in held),
        (last, {"type": f"{kind}.done", **place, "arguments": arguments, "name": name}),
        (last, {"type": "response.output_item.done", "output_index": index, "item": done}),
    ]
    return events, done


def _reasoned(
    parts: Iterable[tuple[int, str]], *, index: int = 0
) -> tuple[Events, Mapping[str, object]]:
    held = list(parts)
    item: dict[str, object] = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    summary = {"type": "summary_text", "text": "".join(part for _, part in held)}
    done = {**item, "summary": [summary]}
    place = {"output_index": index, "item_id": item["id"], "summary_index": 0}
    kind, last = "response.reasoning_summary", held[-1][0]
    empty = {**summary, "text": ""}
    events: Events = [
        (0, {"type": "response.output_item.added", "output_index": index, "item": item}),
        (0, {"type": f"{kind}_part.added", **place, "part": empty}),
        *((written, {"type": f"{kind}_text.delta", **place, "delta": p}) for written, p in held),
        (last, {"type": f"{kind}_text.done", **place, "text": summary["text"]}),
        (last, {"type": f"{kind}_part.done", **place, "part": summary}),
        (last, {"type": "response.output_item.done", "output_index": index, "item": done}),
    ]
    return events, done


def _text() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=4)
    words = ("Hi", " the", "re", "!")
    return responses("text", [_said(words)], truth=truth, text="Hi there!")


def _cached() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=4, cached_tokens=30, cache_write_tokens=5)
    words = ("Hi", " the", "re", "!")
    return responses("cached", [_said(words)], truth=truth, text="Hi there!")


def _unicode() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=len(WAVE))
    return responses("unicode", [_said(WAVE)], truth=truth, text=WAVE)


def _tools() -> Golden:
    truth = Truth(input_tokens=90, output_tokens=40)
    items = [
        _called("get_weather", [(10, '{"city'), (12, '":"Kö'), (16, 'ln"}')]),
        _called("get_time", [(36, "{"), (38, "}")], index=1),
    ]
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "name": "get_weather", "parameters": parameters}]
    return responses("tool calls", items, truth=truth, tools=tools)


def _reasoning() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=140)
    items = [
        _reasoned([(50, "**Greeting**"), (90, " They want one 🤔.")]),
        _said(("Hi", "!"), index=1, after=120),
    ]
    return responses(
        "reasoning", items, truth=truth, text="Hi!", reasoning={"effort": "low", "summary": "auto"}
    )


def _refusal() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=4)
    return responses("refusal", [_said(("I", " can", "not", "."), kind="refusal")], truth=truth)


def _incomplete() -> Golden:
    truth = Truth(input_tokens=37, output_tokens=3)
    words = ("Hi", " the", "re")
    return responses("incomplete", [_said(words)], truth=truth, end="incomplete", text="Hi there")


RESPONSES = (
    _text(),
    _cached(),
    _unicode(),
    _tools(),
    _reasoning(),
    _refusal(),
    _incomplete(),
)


def whole(truth: Truth = _TRUTH, **more: object) -> dict[str, object]:
    """Return a whole answer."""
    _, item = _said(("Hi", " there", "!"))
    return response(**{"status": "completed", "output": [item], "usage": usage(truth), **more})
