"""No tokenizer makes more of a text than the bound says, whatever it was trained on."""

import html
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.model_gateway.counting.output import tokens_bound
from runtime.model_gateway.counting.texts import _NEVER_GROWS, _grown_bytes, growth
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from tests.runtime.model_gateway.counting.tokenizer_files import (
    BYTE_LEVEL,
    BYTES_ALONE,
    FALLS_BACK,
    KINDS,
    Tokenizer,
    trained,
)
from tests.runtime.model_gateway.counting.world import (
    a_payload,
    a_request,
    a_tier,
    bound_of,
    compact,
    wrote,
)

TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="ﷺﷻ﷽𝅘𝅥𝅯İŉǰΐẞ한글é數据👩‍👧\u0958\u2011 \n\t<>&'\"\\", max_size=80),
    st.text(alphabet="{}[]\"',:0123456789 <>&\\u", max_size=200),
)
LEAVES = st.one_of(TEXTS, st.integers(), st.booleans(), st.none())
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
# Templates of chats begin each message with its role between two markers, and end it with one.
MARKERS_PER_MESSAGE = 8
MARKERS_PER_REQUEST = 40


@cache
def tokenizer(kind: str) -> Tokenizer:
    return trained(kind)


def count(kind: str, text: str) -> int:
    whole = text.encode(errors="replace").decode()
    return len(tokenizer(kind).encode(whole, add_special_tokens=False).ids)


def told(value: Any, form: str) -> str:
    """Return JSON as a template tells it to a model."""
    match form:
        case "python":
            return json.dumps(value, ensure_ascii=False)
        case "lines":
            return json.dumps(value, ensure_ascii=False, indent=4)
        case "ascii lines":
            return json.dumps(value, indent=4)
        case _:
            dumped = json.dumps(value, ensure_ascii=False)
            for character in "<>&'":
                dumped = dumped.replace(character, f"\\u{ord(character):04x}")
            return dumped


@pytest.mark.requirement("count.bound-never-below")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
@example(texts=["ﷺ" * 40])
@example(texts=["\U0001d160" * 40])
@example(texts=["İ" * 40])
def test_no_message_is_more_tokens_than_its_bound(kind: str, texts: list[str]) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    messages = [{"role": "user", "content": text} for text in texts]

    truth = MARKERS_PER_REQUEST + sum(MARKERS_PER_MESSAGE + count(kind, text) for text in texts)

    assert truth <= bound_of(a_request({"messages": messages}))


# An indent is one token to every tokenizer that has read code, many to one that knows bytes alone.
@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("python", BYTES_ALONE),
        ("html", BYTES_ALONE),
        *((form, kind) for form in ("lines", "ascii lines") for kind in (BYTE_LEVEL, FALLS_BACK)),
    ],
)
@settings(max_examples=40, deadline=None)
@given(parameters=JSON)
@example(parameters=[1] * 6_000)
@example(parameters=["é" * 2_000, "<" * 600])
@example(parameters={f"name{number}": {"type": "string"} for number in range(400)})
def test_no_tool_is_more_tokens_than_its_bound_however_a_template_tells_it(
    form: str, kind: str, parameters: Any
) -> None:
    parameters = json.loads(json.dumps(parameters).encode(errors="replace"))
    try:
        compact(parameters)
    except UnicodeEncodeError:
        parameters = None
    tool = {"type": "function", "function": {"name": "look", "parameters": parameters}}
    request = a_request({"messages": [{"role": "user", "content": "x"}], "tools": [tool]})

    truth = count(kind, told(tool, form))

    assert truth <= bound_of(request)


@pytest.mark.requirement("count.bound-not-wasted")
@pytest.mark.parametrize("dash", ["-", "\u2014"])
def test_tools_are_held_at_little_more_than_their_bytes_whatever_one_character_is(
    dash: str,
) -> None:
    words = f"The entries of the table {dash} the latest first, at most 'limit' of them. " * 5
    properties = {"limit": {"type": "integer", "description": words}, "to": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["limit"]}
    tool = {"type": "function", "function": {"name": "look", "parameters": parameters}}
    fields = {"messages": [{"role": "user", "content": "x"}], "tools": [tool] * 34}

    assert bound_of(a_request(fields)) < 2 * len(compact(fields))


@pytest.mark.requirement("count.bound-never-below")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(choices=st.lists(st.lists(st.integers(min_value=0, max_value=255)), min_size=1, max_size=4))
def test_whatever_tokens_a_model_writes_its_text_bounds_them(
    kind: str, choices: list[list[int]]
) -> None:
    made = tokenizer(kind)
    ids = [[number % made.get_vocab_size() for number in choice] for choice in choices]
    parts = {f"{place}.content": made.decode(choice) for place, choice in enumerate(ids)}
    shown = [
        choice if kind != "word_piece" else made.encode(parts[f"{place}.content"]).ids
        for place, choice in enumerate(ids)
    ]

    truth = sum(len(choice) + 1 for choice in shown)

    assert truth <= tokens_bound(wrote(**parts), a_payload(a_request(choices=len(choices))))


@settings(max_examples=60, deadline=None)
@given(arguments=st.dictionaries(TEXTS, LEAVES, max_size=5))
def test_arguments_that_a_server_writes_anew_are_bounded_as_the_model_wrote_them(
    arguments: dict[str, Any],
) -> None:
    arguments = json.loads(json.dumps(arguments).encode())
    written = json.dumps(arguments, ensure_ascii=True, indent=2)
    try:
        shown = compact(arguments).decode()
    except UnicodeEncodeError:
        return

    truth = count(BYTES_ALONE, written)

    assert truth <= tokens_bound(wrote(arguments=shown), a_payload())


def test_a_stop_sequence_that_is_not_shown_is_bounded_too() -> None:
    fields = {"messages": [], "stop": ["###", "a much longer end"]}
    plain = tokens_bound(Produced(text_bytes=10), a_payload(a_request({"messages": []})))

    assert tokens_bound(Produced(text_bytes=10), a_payload(a_request(fields))) == plain + 17


def test_what_normalises_to_more_is_counted_in_escapes_as_well() -> None:
    raw, escaped = '{"a":"ﷺ"}'.encode(), b'{"a":"\\ufdfa"}'

    assert growth(raw) > 0
    assert len(escaped) + growth(escaped) >= len(raw) + growth(raw) - len("ﷺ".encode())
    assert growth(html.escape("plain text").encode()) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_with_tools_is_bounded_as_templates_write_its_calls_anew(
    kind: str,
) -> None:
    arguments = {"lines": list(range(10)) * 40, "text": "<a href='x'>&</a>" * 30}
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "edit", "arguments": compact(arguments).decode()},
    }
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]

    truth = count(kind, "go" + told(arguments, "html") + "done") + 3 * MARKERS_PER_MESSAGE

    assert truth <= bound_of(a_request({"messages": messages}))


def test_what_is_never_looked_at_never_grows() -> None:
    skipped = [
        character
        for character in map(chr, (*range(0x80, 0xD800), *range(0xE000, 0x110000)))
        if _NEVER_GROWS.match(character)
    ]

    assert len(skipped) > 50_000
    assert [one for one in skipped if _grown_bytes.__wrapped__(one) > len(one.encode())] == []


def test_no_more_is_held_for_a_long_prompt_than_its_model_can_read() -> None:
    wire = OpenAIChat()
    body = {"model": "low", "messages": [{"role": "user", "content": "x" * 2_000_000}]}
    request = wire.parse(compact(body), headers={})

    open_ended = wire.payload(request, a_tier())
    stated = wire.payload(request, a_tier(context_tokens_max=128_000))

    assert open_ended.input_tokens_max > 2_000_000
    assert stated.input_tokens_max == 128_000


def test_no_escape_of_six_bytes_outgrows_them_unseen() -> None:
    longer = [
        code for code in range(0x80, 0x10000)
        if code not in range(0xD800, 0xE000) and _grown_bytes(chr(code)) > 6
    ]  # fmt: skip

    for code in longer:
        written = (f"\\u{code:04x}", f"\\u{code:04X}")
        assert [growth(one.encode()) for one in written] == [_grown_bytes(chr(code)) - 6] * 2


def test_a_text_of_every_character_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def grown_bytes(character: str) -> int:
        looked_at.append(character)
        return _grown_bytes(character)

    monkeypatch.setattr("runtime.model_gateway.counting.texts._grown_bytes", grown_bytes)
    many = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x20000)]))
    once, twice = growth(many.encode()), growth((many * 2).encode())

    assert (once > 0, twice) == (True, 2 * once)
    # Of a hundred thousand, no more than may grow, and none of them twice for a text.
    assert len(looked_at) < 2 * 1_300
