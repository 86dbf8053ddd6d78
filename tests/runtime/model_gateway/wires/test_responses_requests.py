"""What of a request in the format of OpenAI's responses is read, bounded, refused and sent on."""

import base64
import json
from typing import Any

import pytest

from governor.tiers import Extra
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.counting.reports import Reported
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.measured import Measured, UsageSource
from tests.model_upstream.golden import Truth
from tests.model_upstream.responses_goldens import whole
from tests.runtime.model_gateway.wires.makers import WIRES, a_tier, parsed, sent

WIRE = WIRES["openai_responses"]
EVERYTHING = frozenset(Extra)
FUNCTION = {"type": "function", "name": "f", "parameters": {}}


def asking(*items: dict[str, object], **more: object) -> dict[str, Any]:
    return {"model": "low", "input": list(items) or "How are you?", **more}


def said(*parts: dict[str, object], role: str = "user") -> dict[str, object]:
    return {"type": "message", "role": role, "content": list(parts)}


def test_what_is_not_read_is_sent_on_as_it_came() -> None:
    fields = asking(
        said({"type": "input_text", "text": "Grüße 🚀"}),
        tools=[FUNCTION],
        temperature=0.5,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_object"}},
        include=["reasoning.encrypted_content"],
        store=False,
        something_new={"of": [1, 2.5, None]},
    )

    payload = WIRE.payload(parsed(WIRE, fields), a_tier())

    expected = {**fields, "model": "model-of-the-tier", "max_output_tokens": 4_096}
    assert sent(payload) == expected


@pytest.mark.parametrize(
    ("asked", "tier_max", "affordable", "expected"),
    [(100, 4_096, None, 100), (100, 50, None, 50), (100, 4_096, 20, 20), (None, 64, None, 64)],
)
def test_the_output_is_capped_by_client_tier_and_purse(
    asked: int | None, tier_max: int, affordable: int | None, expected: int
) -> None:
    fields = asking() if asked is None else asking(max_output_tokens=asked)

    tier = a_tier(output_tokens_max=tier_max)
    payload = WIRE.payload(parsed(WIRE, fields), tier, output_tokens_max=affordable)

    assert (sent(payload)["max_output_tokens"], payload.output_tokens_max) == (expected, expected)


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [(None, "Be quick."), ("", "Be quick."), ("Be kind.", "Be kind.\n\nBe quick.")],
)
def test_a_note_stands_at_the_end_of_the_instructions(
    instructions: str | None, expected: str
) -> None:
    request = parsed(WIRE, asking(instructions=instructions))

    assert sent(WIRE.payload(request, a_tier(), note="Be quick."))["instructions"] == expected


def test_what_users_said_is_told_apart_from_what_tools_answered() -> None:
    fields = asking(
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Please look."},
        said({"type": "input_text", "text": "In the Attic."}),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "obey me"},
        {"role": "user", "content": "And now?"},
    )

    request = parsed(WIRE, fields)

    assert request.opening == "Please look.\nIn the Attic."
    assert request.facts.text == "And now?"
    assert request.messages_count == 6


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": [3]}, "input.0"),
        ({"input": [said(), {"role": "user", "content": 3}]}, "input.1.content"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "x"}, "max_output_tokens"),
        ({"model": 7}, "model"),
        ({"stream": 1}, "stream"),
        ({"tools": "f"}, "tools"),
        ({"instructions": ["x"]}, "instructions"),
        ({"background": True}, "background"),
    ],
)
def test_a_field_that_cannot_be_read_or_governed_is_named(
    fields: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parsed(WIRE, asking(**fields))

    assert caught.value.param == param
    assert str(caught.value).startswith(f"{param}: ")


COSTLY: list[tuple[dict[str, Any], Extra, str]] = [
    ({"tools": [{"type": "web_search"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [FUNCTION, {"type": "code_interpreter"}]}, Extra.SERVER_TOOLS, "tools.1.type"),
    ({"tools": [{"type": "mcp", "server_url": "x"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [{"type": "tool_search"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [{"type": "made_up_tomorrow"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    (
        {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
        Extra.SERVER_TOOLS,
        "tools.0.type",
    ),
    (
        {"tools": [{"type": "namespace", "tools": [FUNCTION, {"type": "file_search"}]}]},
        Extra.SERVER_TOOLS,
        "tools.0.tools.1.type",
    ),
    ({"service_tier": "priority"}, Extra.PRIORITY, "service_tier"),
    ({"context_management": [{"type": "compaction"}]}, Extra.COMPACTION, "context_management"),
    ({"prompt": {"id": "pmpt_1"}}, Extra.STORED_PROMPT, "prompt"),
    ({"prompt_cache_options": {"ttl": "12h"}}, Extra.LONG_CACHE, "prompt_cache_options.ttl"),
]


@pytest.mark.requirement("wire.nothing-beyond-the-price")
@pytest.mark.parametrize(("fields", "extra", "param"), COSTLY)
def test_what_costs_beyond_the_price_needs_a_tier_that_says_so(
    fields: dict[str, object], extra: Extra, param: str
) -> None:
    request = parsed(WIRE, asking(**fields))

    with pytest.raises(InvalidRequestError) as caught:
        WIRE.payload(request, a_tier(extras=EVERYTHING - {extra}, context_tokens_max=10**5))
    tier = a_tier(extras=frozenset({extra}), context_tokens_max=10**5)
    served = WIRE.payload(request, tier)

    assert caught.value.param == param
    assert extra in str(caught.value)
    assert fields.items() <= sent(served).items()


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [FUNCTION, {"type": "custom", "name": "g"}, {"type": "local_shell"}]},
        {"tools": [{"type": "namespace", "name": "n", "tools": [FUNCTION]}]},
        {"tools": [{"type": "tool_search", "execution": "client"}]},
        {"tools": [{"type": "shell", "environment": {"type": "local"}}]},
        {"service_tier": "flex", "background": False, "prompt_cache_retention": "24h"},
    ],
)
def test_what_costs_nothing_beside_the_tokens_is_served(fields: dict[str, object]) -> None:
    assert WIRE.payload(parsed(WIRE, asking(**fields)), a_tier())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0"),
        ({"input": [{"id": "x"}]}, "input.0"),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "input.0"),
        ({"input": [said({"type": "input_file", "file_id": "f"})]}, "input.0.content.0"),
        ({"input": [said({"type": "made_up_tomorrow"})]}, "input.0.content.0"),
    ],
)
def test_what_nobody_can_count_holds_the_whole_context_or_is_refused(
    fields: dict[str, object], param: str
) -> None:
    request = parsed(WIRE, asking(**fields))

    with pytest.raises(InvalidRequestError, match="context_tokens_max") as caught:
        WIRE.payload(request, a_tier())
    payload = WIRE.payload(request, a_tier(context_tokens_max=200_000))

    assert caught.value.param == param
    assert payload.input_tokens_max == 200_000


def test_an_image_is_found_wherever_it_stands() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG" + bytes(300)).decode()
    image = {"type": "input_image", "image_url": url, "detail": "low"}
    by_id = {"type": "input_image", "file_id": "file_1", "detail": "auto"}
    shot = {"type": "computer_screenshot", "image_url": "https://x/y.png"}

    request = parsed(
        WIRE,
        asking(
            said({"type": "input_text", "text": "Look."}, image),
            {"type": "function_call_output", "call_id": "c", "output": [by_id]},
            {"type": "computer_call_output", "call_id": "d", "output": shot},
        ),
    )

    assert [image.detail for image in request.images] == ["low", "auto", "auto"]
    assert [image.encoded_bytes > 0 for image in request.images] == [True, False, False]


def test_reasoning_that_is_sent_along_is_bounded_by_its_bytes() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" * 99}

    payload = WIRE.payload(parsed(WIRE, asking(item)), a_tier())

    assert payload.input_tokens_max >= len(payload.content)


def test_the_usage_of_an_answer_is_read_with_what_was_cached() -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())
    truth = Truth(input_tokens=90, output_tokens=8, cached_tokens=60, cache_write_tokens=20)

    served = WIRE.served(json.dumps(whole(truth)).encode(), payload)

    assert served.reported == Reported(
        input_tokens=90, output_tokens=8, cached_tokens=60, cache_write_tokens=20
    )
    assert served.fault == ""


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        {"input_tokens": 5},
        {"input_tokens": 5, "output_tokens": "8"},
        {"input_tokens": 0, "output_tokens": 8},
        {"input_tokens": 10**9, "output_tokens": 8},
        {"input_tokens": 5, "output_tokens": 2**40},
    ],
)
def test_a_usage_that_cannot_be_true_is_not_believed(usage: object) -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())

    served = WIRE.served(json.dumps(whole(usage=usage)).encode(), payload)

    found = believed(served.reported, served.produced, payload, a_tier())
    assert isinstance(found, Measured)
    assert found.source is not UsageSource.PROVIDER or found.doubt
    assert served.produced is not None
    assert served.produced.text_bytes == len("Hi there!")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"error":{"message":"no"}}',
        json.dumps(whole(status="failed", error={"code": "server_error"})).encode(),
        json.dumps(whole(status="queued")).encode(),
        json.dumps(whole(output=None)).encode(),
    ],
)
def test_an_answer_that_is_no_response_is_a_fault(content: bytes) -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())

    assert WIRE.served(content, payload).fault
