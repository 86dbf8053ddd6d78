import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.effort import (
    BUDGET_TOKENS_MIN,
    NO_EFFORT,
    USUAL_EFFORT,
    AnswerMode,
    Effort,
    EffortLevel,
    EffortStyle,
    EffortTarget,
    effort_for,
    levels_of,
    nearest_level,
    target_of,
)
from governor.errors import InvalidEffortError

LEVELLED = (EffortStyle.OPENAI, EffortStyle.GEMINI, EffortStyle.ANTHROPIC_EFFORT)
BUDGETED = (
    EffortStyle.ANTHROPIC_BUDGET,
    EffortStyle.LLAMA_CPP,
    EffortStyle.VLLM,
    EffortStyle.QWEN,
)
EFFORTS = st.one_of(
    st.just(NO_EFFORT), st.floats(0.1, 4.0).map(lambda fraction: Effort(fraction=fraction))
)
TOKENS = st.integers(1, 200_000)


def target(
    effort: Effort,
    style: EffortStyle,
    *,
    usual: int | None = 2000,
    asked: int | None = 1000,
    most: int = 32_000,
) -> EffortTarget | None:
    return target_of(
        effort,
        style=style,
        levels=(),
        usual_tokens=usual,
        output_tokens_asked=asked,
        output_tokens_max=most,
    )


@pytest.mark.parametrize("fraction", [-1.0, 0.05, 4.5, float("nan"), float("inf")])
def test_what_is_no_effort_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidEffortError, match="neither 0 nor within"):
        Effort(fraction=fraction)


@pytest.mark.parametrize("level", list(EffortLevel))
def test_a_providers_word_is_nearest_to_itself(level: EffortLevel) -> None:
    assert nearest_level(Effort.of(level), tuple(EffortLevel)) is level


def test_a_style_takes_what_all_its_models_take_unless_a_tier_lists_more() -> None:
    assert EffortLevel.NONE not in levels_of(EffortStyle.OPENAI, ())

    listed = levels_of(EffortStyle.OPENAI, (EffortLevel.HIGH, EffortLevel.NONE))

    assert listed == (EffortLevel.NONE, EffortLevel.HIGH)


@given(one=EFFORTS, other=EFFORTS, style=st.sampled_from(LEVELLED))
def test_more_effort_is_never_a_lower_level(one: Effort, other: Effort, style: EffortStyle) -> None:
    less, more = sorted((one, other), key=lambda effort: effort.fraction)
    order = list(EffortLevel)

    levels = levels_of(style, ())

    assert order.index(nearest_level(less, levels)) <= order.index(nearest_level(more, levels))


@given(
    effort=EFFORTS,
    style=st.sampled_from(BUDGETED),
    usual=st.none() | TOKENS,
    asked=st.none() | TOKENS,
    most=TOKENS,
)
def test_a_budget_to_think_is_off_or_of_the_least_size_and_leaves_room_for_an_answer(
    *, effort: Effort, style: EffortStyle, usual: int | None, asked: int | None, most: int
) -> None:
    found = target(effort, style, usual=usual, asked=asked, most=most)

    assert found is not None
    assert found.thinking_tokens is not None
    cap = found.output_tokens_max
    if found.thinking_tokens > 0:
        assert cap is not None
        assert BUDGET_TOKENS_MIN <= found.thinking_tokens < cap
        assert effort != NO_EFFORT
    assert cap is not None
    assert cap <= most


@given(
    one=EFFORTS,
    other=EFFORTS,
    style=st.sampled_from([*LEVELLED, *BUDGETED]),
    usual=st.none() | TOKENS,
    asked=st.none() | TOKENS,
    most=TOKENS,
)
def test_what_is_held_for_more_effort_is_never_less(
    *,
    one: Effort,
    other: Effort,
    style: EffortStyle,
    usual: int | None,
    asked: int | None,
    most: int,
) -> None:
    less, more = sorted((one, other), key=lambda effort: effort.fraction)

    def held(effort: Effort) -> int:
        found = target(effort, style, usual=usual, asked=asked, most=most)
        assert found is not None
        return min(found.output_tokens_max or asked or most, most)

    assert held(less) <= held(more)


def test_thinking_comes_on_top_of_the_answer_that_was_asked_for() -> None:
    found = target(USUAL_EFFORT, EffortStyle.ANTHROPIC_BUDGET, usual=3000, asked=500)

    assert found == EffortTarget(thinking_tokens=3000, output_tokens_max=3500)


def test_a_tier_with_no_room_to_think_is_asked_to_answer() -> None:
    found = target(USUAL_EFFORT, EffortStyle.ANTHROPIC_BUDGET, asked=1000, most=1500)

    assert found is not None
    assert found.is_off
    assert found.output_tokens_max == 1000


def test_a_tier_without_a_parameter_is_told_nothing() -> None:
    assert target(USUAL_EFFORT, EffortStyle.NONE) is None


@pytest.mark.parametrize(
    ("mode", "wished", "usual", "counts"),
    [
        (AnswerMode.INSTANT, Effort(fraction=2.0), None, NO_EFFORT),
        (AnswerMode.REASONING, None, None, USUAL_EFFORT),
        (AnswerMode.REASONING, None, NO_EFFORT, USUAL_EFFORT),
        (AnswerMode.AGENTIC, Effort(fraction=0.5), USUAL_EFFORT, Effort(fraction=0.5)),
        (None, None, Effort(fraction=0.4), Effort(fraction=0.4)),
        (None, None, None, None),
    ],
)
def test_the_mode_goes_before_the_wish_and_the_wish_before_the_tier(
    mode: AnswerMode | None, wished: Effort | None, usual: Effort | None, counts: Effort | None
) -> None:
    assert effort_for(mode, wished, usual=usual) == counts
