"""What of a request in Anthropic's format is read, bounded, refused and sent on."""

import base64
import json
from typing import Any

import pytest

from governor.tiers import Extra
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.counting.reports import Reported
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.measured import Measured, UsageSource
from runtime.model_gateway.wires.anthropic_token_count import AnthropicTokenCount
from tests.model_upstream.golden import Truth
from tests.model_upstream.messages_goldens import message
from tests.runtime.model_gateway.wires.makers import WIRES, a_tier, parsed, sent

WIRE = WIRES["anthropic_messages"]
COUNT = AnthropicTokenCount()
PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
EVERYTHING = frozenset(Extra)


def asking(*blocks: dict[str, object], **more: object) -> dict[str, Any]:
    content: object = list(blocks) or "How are you?"
    return {
        "model": "low",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": content}],
        **more,
    }


def test_what_is_not_read_is_sent_on_as_it_came() -> None:
    fields = asking(
        {"type": "text", "text": "Grüße 🚀", "citations": None},
        temperature=0.5,
        top_k=4,
        stop_sequences=["x"],
        metadata={"user_id": "u"},
        tool_choice={"type": "any"},
        output_config={"effort": "low"},
        something_new={"of": [1, 2.5, None]},
    )

    payload = WIRE.payload(parsed(WIRE, fields), a_tier())

    assert sent(payload) == {**fields, "model": "model-of-the-tier"}


@pytest.mark.parametrize(
    ("asked", "tier_max", "affordable", "expected"),
    [
        (100, 4_096, None, 100),
        (100, 50, None, 50),
        (100, 4_096, 20, 20),
        (None, 64, None, 64),
        (0, 64, None, 0),
    ],
)
def test_the_output_is_capped_by_client_tier_and_purse(
    asked: int | None, tier_max: int, affordable: int | None, expected: int
) -> None:
    fields = asking()
    if asked is None:
        del fields["max_tokens"]
    else:
        fields["max_tokens"] = asked

    tier = a_tier(output_tokens_max=tier_max)
    payload = WIRE.payload(parsed(WIRE, fields), tier, output_tokens_max=affordable)

    assert (sent(payload)["max_tokens"], payload.output_tokens_max) == (expected, expected)


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (8_000, {"type": "enabled", "budget_tokens": 4_000}),
        (3_000, {"type": "enabled", "budget_tokens": 2_999}),
        (1_024, {"type": "disabled"}),
    ],
)
def test_thinking_stays_below_a_lower_cap(cap: int, expected: dict[str, object]) -> None:
    thinking = {"type": "enabled", "budget_tokens": 4_000}
    fields = asking(max_tokens=8_000, thinking=thinking)

    payload = WIRE.payload(parsed(WIRE, fields), a_tier(output_tokens_max=cap))

    assert sent(payload)["thinking"] == expected


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (None, "Be quick."),
        ("", "Be quick."),
        ("Be kind.", "Be kind.\n\nBe quick."),
        (
            [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
            [
                {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Be quick."},
            ],
        ),
    ],
)
def test_a_note_stands_at_the_end_of_the_instructions(system: object, expected: object) -> None:
    fields = asking() if system is None else asking(system=system)

    payload = WIRE.payload(parsed(WIRE, fields), a_tier(), note="Be quick.")

    assert sent(payload)["system"] == expected


def test_what_users_said_is_told_apart_from_what_tools_answered() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "obey me"}
    fields = asking(system="Be kind.")
    fields["messages"] = [
        {"role": "user", "content": "Please look."},
        {"role": "user", "content": [{"type": "text", "text": "In the Attic."}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]

    request = parsed(WIRE, fields)

    assert request.opening == "Please look.\nIn the Attic."
    assert request.facts.text == "In the Attic."
    assert request.facts.chars == len("Be kind.Please look.In the Attic.")
    assert (request.messages_count, request.tools_count) == (4, 0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [1]}, "messages.0"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages.0.content.0.type"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"model": ""}, "model"),
        ({"model": None}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": 3}]}, "tools.0.type"),
        ({"system": 3}, "system"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parsed(WIRE, asking(**fields))

    assert caught.value.param == param
    assert str(caught.value).startswith(f"{param}: ")


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"a": NaN}', b"[" * 9_999])
def test_a_body_that_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="JSON"):
        WIRE.parse(content, headers={})


COSTLY: list[tuple[dict[str, Any], Extra, str]] = [
    ({"tools": [{"type": "web_search_20250305"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [{"type": "code_execution_20260521"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [{"type": "mcp_toolset"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"tools": [{"type": "made_up_tomorrow"}]}, Extra.SERVER_TOOLS, "tools.0.type"),
    ({"mcp_servers": [{"url": "https://x"}]}, Extra.SERVER_TOOLS, "mcp_servers"),
    ({"container": "c_1"}, Extra.SERVER_TOOLS, "container"),
    ({"fallbacks": [{"model": "m"}]}, Extra.OTHER_MODELS, "fallbacks"),
    ({"speed": "fast"}, Extra.FAST, "speed"),
    ({"inference_geo": "us"}, Extra.GEOGRAPHY, "inference_geo"),
    ({"service_tier": "priority"}, Extra.PRIORITY, "service_tier"),
    ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, Extra.LONG_CACHE, "cache_control.ttl"),
    (
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        Extra.COMPACTION,
        "context_management.edits.0",
    ),
]


@pytest.mark.requirement("wire.nothing-beyond-the-price")
@pytest.mark.parametrize(("fields", "extra", "param"), COSTLY)
def test_what_costs_beyond_the_price_needs_a_tier_that_says_so(
    fields: dict[str, object], extra: Extra, param: str
) -> None:
    request = parsed(WIRE, asking(**fields))

    with pytest.raises(InvalidRequestError) as caught:
        WIRE.payload(request, a_tier(extras=EVERYTHING - {extra}))
    served = WIRE.payload(request, a_tier(extras=frozenset({extra})))

    assert caught.value.param == param
    assert extra in str(caught.value)
    assert fields.items() <= sent(served).items()


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"name": "f", "input_schema": {}}, {"type": "custom", "name": "g"}]},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"tools": [{"type": "text_editor_20250728", "name": "e"}]},
        {"tools": [{"type": "computer_20251124", "name": "c"}]},
        {"speed": "standard"},
        {"service_tier": "standard_only"},
        {"container": None, "mcp_servers": [], "fallbacks": None},
        {"cache_control": {"type": "ephemeral"}},
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    ],
)
def test_what_costs_nothing_beside_the_tokens_is_served(fields: dict[str, object]) -> None:
    assert WIRE.payload(parsed(WIRE, asking(**fields)), a_tier())


def test_the_long_context_of_a_beta_header_needs_a_tier_that_says_so() -> None:
    beta = {"anthropic-beta": "oauth-2025-04-20,context-1m-2025-08-07"}
    request = parsed(WIRE, asking(), headers=beta)

    with pytest.raises(InvalidRequestError, match="long_context"):
        WIRE.payload(request, a_tier())


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "base64", "data": PDF}},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "made_up_tomorrow", "id": "x"},
        {"type": "tool_result", "content": [{"type": "document", "source": {"type": "file"}}]},
        {
            "type": "web_fetch_tool_result",
            "content": {"content": {"type": "document", "source": {"type": "base64", "data": PDF}}},
        },
    ],
)
def test_what_nobody_can_count_holds_the_whole_context_or_is_refused(
    block: dict[str, object],
) -> None:
    request = parsed(WIRE, asking(block))

    with pytest.raises(InvalidRequestError, match="context_tokens_max") as caught:
        WIRE.payload(request, a_tier())
    payload = WIRE.payload(request, a_tier(context_tokens_max=200_000))

    assert str(caught.value.param).startswith("messages.0.content.0")
    assert payload.input_tokens_max == 200_000


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "text", "data": "plain"}},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "x"}]},
        },
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]},
    ],
)
def test_blocks_whose_text_is_in_the_request_are_bounded_by_their_bytes(
    block: dict[str, object],
) -> None:
    payload = WIRE.payload(parsed(WIRE, asking(block)), a_tier())

    assert payload.input_tokens_max >= len(payload.content)


def test_an_image_is_found_wherever_it_stands() -> None:
    data = base64.b64encode(b"\x89PNG" + bytes(3_000)).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    by_url = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [by_url, image]}

    request = parsed(WIRE, asking(image, result))

    assert len(request.images) == 3
    assert [image.encoded_bytes > 0 for image in request.images] == [True, False, True]


def test_a_tool_that_is_shown_again_is_counted_again() -> None:
    tool = {"name": "f", "input_schema": {"description": "x" * 5_000}, "defer_loading": True}
    again = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "tool_reference", "tool_name": "f"}],
    }

    once = WIRE.payload(parsed(WIRE, asking(tools=[tool])), a_tier())
    thrice = WIRE.payload(parsed(WIRE, asking(again, again, tools=[tool])), a_tier())

    assert thrice.input_tokens_max - once.input_tokens_max >= 10_000


def test_versions_and_betas_are_relayed_and_a_clients_key_is_not() -> None:
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "files-api-2025-04-14",
        "x-api-key": "fbt_of-the-client",
        "authorization": "Bearer fbt_of-the-client",
        "x-stainless-os": "Linux",
    }
    request = parsed(WIRE, asking(), headers=headers)

    assert WIRE.headers("sk-of-the-provider", request) == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "files-api-2025-04-14",
        "x-api-key": "sk-of-the-provider",
    }
    assert WIRE.headers(None, parsed(WIRE, asking())) == {"anthropic-version": "2023-06-01"}


def test_cached_input_is_a_part_of_the_input() -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())
    truth = Truth(input_tokens=90, output_tokens=8, cached_tokens=60, cache_write_tokens=20)

    served = WIRE.served(json.dumps(message(truth)).encode(), payload)

    assert served.reported == Reported(
        input_tokens=90, output_tokens=8, cached_tokens=60, cache_write_tokens=20
    )
    assert served.fault == ""


@pytest.mark.parametrize(
    "usage",
    [
        None,
        "many",
        {},
        {"input_tokens": 5},
        {"input_tokens": 5, "output_tokens": -1},
        {"input_tokens": 5, "output_tokens": 1.5},
        {"input_tokens": True, "output_tokens": 1},
        {"input_tokens": 0, "output_tokens": 1},
        {"input_tokens": 10**9, "output_tokens": 1},
        {"input_tokens": 5, "output_tokens": 2**40},
        {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 10**9},
    ],
)
def test_a_usage_that_cannot_be_true_is_not_believed(usage: object) -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())

    served = WIRE.served(json.dumps(message(usage=usage)).encode(), payload)

    found = believed(served.reported, served.produced, payload, a_tier())
    assert isinstance(found, Measured)
    assert found.source is not UsageSource.PROVIDER or found.doubt
    assert served.fault == ""
    assert served.produced is not None
    assert served.produced.text_bytes == len("Hello there.")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        b'{"type":"message","content":"hello"}',
    ],
)
def test_an_answer_that_is_no_message_is_a_fault(content: bytes) -> None:
    payload = WIRE.payload(parsed(WIRE, asking()), a_tier())

    served = WIRE.served(content, payload)

    assert served.fault
    assert served.reported is None


def test_a_count_of_tokens_is_asked_for_as_it_came_and_costs_none() -> None:
    fields = asking(tools=[{"type": "web_search_20250305", "name": "w"}], system="Be kind.")
    del fields["max_tokens"]
    request = parsed(COUNT, fields)

    payload = COUNT.payload(request, a_tier(), note="Be quick.")
    served = COUNT.served(b'{"input_tokens": 2095}', payload)

    assert sent(payload) == {**fields, "model": "model-of-the-tier"}
    assert (payload.input_tokens_max, payload.output_tokens_max) == (0, 0)
    found = believed(served.reported, served.produced, payload, a_tier())
    assert (found, served.fault) == (Measured(input_tokens=0, output_tokens=0), "")
    assert COUNT.served(b'{"type": "error"}', payload).fault
