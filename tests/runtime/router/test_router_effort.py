"""Each provider's own parameter for an effort, and that the client's own word stands."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.effort import NO_EFFORT, USUAL_EFFORT, AnswerMode, Effort, EffortLevel, EffortStyle
from governor.ids import CallId
from governor.learning.averages import UsualTokens
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.preparation import Preparing
from runtime.router.effort import with_effort
from runtime.router.learned import Learned
from runtime.router.modes import with_mode, with_tools
from runtime.router.preparing import TierPreparer
from tests.runtime.router.rounds_bench import request, tier

CHAT, MESSAGES, RESPONSES = (
    WireName.OPENAI_CHAT,
    WireName.ANTHROPIC_MESSAGES,
    WireName.OPENAI_RESPONSES,
)
TWICE = Effort(fraction=2.0)
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("read", "write")]


def styled(style: EffortStyle, **more: Any) -> ModelTier:
    return tier("low", effort_style=style, **{"output_tokens_max": 32_000, **more})


def sent(
    style: EffortStyle,
    effort: Effort,
    *,
    wire: WireName = CHAT,
    asked: int | None = 1_000,
    usual: int | None = 3_000,
    **more: Any,
) -> dict[str, Any]:
    """Return the fields that an effort adds or changes."""
    before = request(wire=wire, output_tokens_asked=asked)
    written = with_effort(before, styled(style, **more), effort, usual_tokens=usual)
    fields = written.request.fields
    return {name: value for name, value in fields.items() if before.fields.get(name) != value}


@pytest.mark.requirement("model.effort-in-each-providers-terms")
@pytest.mark.parametrize(
    ("style", "wire", "effort", "fields"),
    [
        (EffortStyle.OPENAI, CHAT, TWICE, {"reasoning_effort": "high"}),
        (EffortStyle.OPENAI, CHAT, NO_EFFORT, {"reasoning_effort": "low"}),
        (EffortStyle.OPENAI, RESPONSES, TWICE, {"reasoning": {"effort": "high"}}),
        (
            EffortStyle.GEMINI,
            CHAT,
            USUAL_EFFORT,
            {"reasoning_effort": "medium", "max_completion_tokens": 9_192},
        ),
        (
            EffortStyle.ANTHROPIC_BUDGET,
            MESSAGES,
            USUAL_EFFORT,
            {"thinking": {"type": "enabled", "budget_tokens": 3_000}, "max_tokens": 4_000},
        ),
        (
            EffortStyle.ANTHROPIC_BUDGET,
            MESSAGES,
            NO_EFFORT,
            {"thinking": {"type": "disabled"}, "max_tokens": 1_000},
        ),
        (EffortStyle.ANTHROPIC_EFFORT, MESSAGES, TWICE, {"output_config": {"effort": "high"}}),
        (
            EffortStyle.LLAMA_CPP,
            CHAT,
            USUAL_EFFORT,
            {
                "chat_template_kwargs": {"enable_thinking": True},
                "thinking_budget_tokens": 3_000,
                "max_completion_tokens": 4_000,
            },
        ),
        (
            EffortStyle.VLLM,
            CHAT,
            NO_EFFORT,
            {"chat_template_kwargs": {"enable_thinking": False}, "max_completion_tokens": 1_000},
        ),
        (
            EffortStyle.QWEN,
            CHAT,
            USUAL_EFFORT,
            {
                "enable_thinking": True,
                "thinking_budget": 3_000,
                "max_completion_tokens": 4_000,
            },
        ),
    ],
)
def test_an_effort_is_said_in_the_providers_own_parameter(
    style: EffortStyle, wire: WireName, effort: Effort, fields: dict[str, Any]
) -> None:
    assert sent(style, effort, wire=wire) == fields


def test_a_tier_that_lists_its_levels_is_told_one_of_them() -> None:
    levels = (EffortLevel.NONE, EffortLevel.XHIGH)

    assert sent(EffortStyle.OPENAI, NO_EFFORT, effort_levels=levels) == {"reasoning_effort": "none"}
    assert sent(EffortStyle.OPENAI, TWICE, effort_levels=levels) == {"reasoning_effort": "xhigh"}


@pytest.mark.requirement("model.effort-of-the-client-stands")
@pytest.mark.parametrize(
    "own",
    [
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": "low"}},
        {"thinking": {"type": "disabled"}},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"output_config": {"effort": "low"}},
        {"enable_thinking": True},
    ],
)
@pytest.mark.parametrize("style", list(EffortStyle))
def test_what_the_client_itself_set_is_never_changed(
    own: dict[str, Any], style: EffortStyle
) -> None:
    for wire in (CHAT, MESSAGES, RESPONSES):
        before = request(wire=wire, fields=own, output_tokens_asked=500)

        written = with_effort(before, styled(style), TWICE, usual_tokens=None)

        assert written.request == before
        assert "the client's own" in written.why


def test_an_effort_that_is_translated_is_said_as_the_clients_wire_says_it() -> None:
    assert sent(EffortStyle.ANTHROPIC_EFFORT, TWICE) == {"reasoning_effort": "high"}
    assert sent(EffortStyle.OPENAI, TWICE, wire=MESSAGES) == {"output_config": {"effort": "high"}}


def test_a_summary_of_reasoning_is_kept_beside_the_effort() -> None:
    asked = request(wire=RESPONSES, fields={"reasoning": {"summary": "auto"}})

    written = with_effort(asked, styled(EffortStyle.OPENAI), TWICE, usual_tokens=None)

    assert written.request.fields["reasoning"] == {"summary": "auto", "effort": "high"}


@pytest.mark.parametrize(
    ("style", "wire"),
    [
        (EffortStyle.NONE, CHAT),
        (EffortStyle.ANTHROPIC_BUDGET, CHAT),
        (EffortStyle.GEMINI, MESSAGES),
    ],
)
def test_a_provider_without_such_a_parameter_is_sent_nothing_and_that_is_said(
    style: EffortStyle, wire: WireName
) -> None:
    before = request(wire=wire)

    written = with_effort(before, styled(style), TWICE, usual_tokens=None)

    assert written.request == before
    assert "nothing is sent" in written.why


@pytest.mark.parametrize(
    ("against", "word"),
    [
        ({"temperature": 0.2}, "a temperature"),
        ({"top_k": 5}, "top_k"),
        ({"top_p": 0.5}, "a top_p below 0.95"),
        ({"tool_choice": {"type": "any"}}, "a forced tool"),
        ({"messages": [{"role": "assistant", "content": "I"}]}, "an answer that is begun"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "a tool's result",
        ),
    ],
)
def test_nothing_is_sent_that_anthropic_refuses_beside_a_budget_to_think(
    against: dict[str, Any], word: str
) -> None:
    before = request(wire=MESSAGES, fields=against, output_tokens_asked=1_000)

    written = with_effort(before, styled(EffortStyle.ANTHROPIC_BUDGET), TWICE, usual_tokens=None)

    assert written.request == before
    assert word in written.why


@given(
    fraction=st.floats(0.1, 4.0),
    asked=st.none() | st.integers(1, 40_000),
    usual=st.none() | st.integers(1, 40_000),
    most=st.integers(1, 64_000),
)
def test_a_budget_is_always_one_that_anthropic_takes(
    fraction: float, asked: int | None, usual: int | None, most: int
) -> None:
    limited = styled(EffortStyle.ANTHROPIC_BUDGET, output_tokens_max=most)
    before = request(wire=MESSAGES, output_tokens_asked=asked)

    fields = with_effort(
        before, limited, Effort(fraction=fraction), usual_tokens=usual
    ).request.fields

    thinking = fields["thinking"]
    assert fields["max_tokens"] <= most
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < fields["max_tokens"]


def test_an_answer_in_words_calls_no_tools_unless_the_client_chose() -> None:
    asked = request(tools_count=2, fields={"tools": TOOLS})
    chosen = request(tools_count=2, fields={"tools": TOOLS, "tool_choice": "auto"})

    assert with_mode(asked, AnswerMode.INSTANT).request.fields["tool_choice"] == "none"
    assert with_mode(asked, AnswerMode.AGENTIC).request == asked
    assert with_mode(chosen, AnswerMode.REASONING).request == chosen
    anthropic = request(wire=MESSAGES, tools_count=1, fields={"tools": [{"name": "read"}]})
    assert with_mode(anthropic, AnswerMode.REASONING).request.fields["tool_choice"] == {
        "type": "none"
    }


def test_a_tier_offers_its_own_tools_alone_and_forces_none_that_is_gone() -> None:
    forced = {"type": "function", "function": {"name": "write"}}
    asked = request(tools_count=2, fields={"tools": TOOLS, "tool_choice": forced})

    some = with_tools(asked, ("read",))
    none = with_tools(asked, ("other",))

    assert [tool["function"]["name"] for tool in some.request.fields["tools"]] == ["read"]
    assert "tool_choice" not in some.request.fields
    assert some.request.tools_count == 1
    assert "tools" not in none.request.fields
    assert none.request.tools_count == 0
    assert "0 of 2" in none.why


def test_an_effort_is_relative_to_what_the_class_of_query_took_lately() -> None:
    usual = UsualTokens()
    preparer = TierPreparer(usual=usual, learned=Learned(), mark=lambda _: "m")
    limited = styled(EffortStyle.LLAMA_CPP)

    def budget() -> int:
        prepared = preparer.prepare(request(), limited, Preparing(effort=1.0))
        for number in range(10):
            preparer.ended(prepared, CallId(f"call_{number}"), output_tokens=7_000)
        found: int = prepared.request.fields["thinking_budget_tokens"]
        return found

    assert budget() == 4_096
    assert budget() == 7_000


@pytest.mark.parametrize("fraction", [0.5, 1.0, 4.0])
def test_wishes_that_are_kept_do_not_move_what_is_usual(fraction: float) -> None:
    usual = UsualTokens()
    preparer = TierPreparer(usual=usual, learned=Learned(), mark=lambda _: "m")
    limited = styled(EffortStyle.LLAMA_CPP, output_tokens_max=200_000)
    budgets = []
    for number in range(100):
        wanted = Preparing(effort=fraction)
        prepared = preparer.prepare(request(), limited, wanted)
        budgets.append(prepared.request.fields["thinking_budget_tokens"])
        # A model that takes what it is given.
        preparer.ended(prepared, CallId(f"call_{number}"), output_tokens=budgets[-1])

    assert budgets[-1] == budgets[0] == int(4_096 * fraction)


def test_what_took_no_thought_says_nothing_of_what_is_usual() -> None:
    usual = UsualTokens()
    preparer = TierPreparer(usual=usual, learned=Learned(), mark=lambda _: "m")
    for number in range(20):
        prepared = preparer.prepare(
            request(), styled(EffortStyle.VLLM), Preparing(mode=AnswerMode.INSTANT)
        )
        preparer.ended(prepared, CallId(f"call_{number}"), output_tokens=3)

    assert len(usual) == 0
