"""Requests that both wires can say, in the one way in which each is written back."""

import json
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, _values, min_size=1, max_size=3)
_schemas = st.dictionaries(texts, _values, max_size=2).map(lambda more: {**more, "type": "object"})
_images = st.sampled_from(["https://example.org/cat.png", "data:image/png;base64,iVBORw0KGgo="])
_text_blocks = texts.map(lambda text: {"type": "text", "text": text})
_image_blocks = st.sampled_from(
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        },
    ]
)
_tools = st.lists(
    st.fixed_dictionaries(
        {"name": _names, "input_schema": _schemas},
        optional={"description": texts, "strict": st.booleans()},
    ),
    min_size=1,
    max_size=3,
)
_choices = st.sampled_from(
    [
        {"type": "auto"},
        {"type": "any"},
        {"type": "none"},
        {"type": "tool", "name": "look"},
        {"type": "any", "disable_parallel_tool_use": True},
    ]
)


@st.composite
def _turns(draw: st.DrawFn) -> list[Fields]:
    turns: list[Fields] = []
    calls: list[str] = []
    for at in range(draw(st.integers(0, 3))):
        turns.append({"role": "user", "content": draw(_heard(calls))})
        said = draw(st.lists(_text_blocks, max_size=2))
        calls = [f"call_{at}_{number}" for number in range(draw(st.integers(0, 2)))]
        said += [
            {"type": "tool_use", "id": call, "name": draw(_names), "input": draw(arguments)}
            for call in calls
        ]
        if not said:
            said = [draw(_text_blocks)]
        turns.append({"role": "assistant", "content": said})
    turns.append({"role": "user", "content": draw(_heard(calls))})
    return turns


@st.composite
def _heard(draw: st.DrawFn, calls: list[str]) -> list[Fields]:
    """Return what tools answered, then what the user says."""
    results = [
        {"type": "tool_result", "tool_use_id": call, "content": [draw(_text_blocks)]}
        for call in calls
    ]
    said = draw(st.lists(_text_blocks | _image_blocks, min_size=not results, max_size=3))
    return [*results, *said]


@st.composite
def messages_requests(draw: st.DrawFn) -> Fields:
    """Return a request in messages that chat can say."""
    fields = draw(
        st.fixed_dictionaries(
            {
                "model": _names,
                "max_tokens": st.integers(1, 10_000),
                "messages": _turns(),
            },
            optional={
                "system": st.lists(_text_blocks, min_size=1, max_size=3),
                "stream": st.just(value=True),
                "temperature": st.floats(0, 1),
                "top_p": st.floats(0, 1),
                "stop_sequences": st.lists(texts, min_size=1, max_size=3),
                "metadata": texts.map(lambda user: {"user_id": user}),
                "output_config": st.fixed_dictionaries(
                    {"effort": st.sampled_from(["low", "medium", "high", "xhigh", "max"])},
                    optional={
                        "format": _schemas.map(
                            lambda schema: {"type": "json_schema", "schema": schema}
                        )
                    },
                ),
            },
        )
    )
    if draw(st.booleans()):
        fields["tools"] = draw(_tools)
        if draw(st.booleans()):
            fields["tool_choice"] = draw(_choices)
    return fields


def compact(value: object) -> str:
    """Return arguments as models write them, without a space too many."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
