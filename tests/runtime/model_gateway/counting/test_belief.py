"""Usage that lies: what is believed of it, and what is settled in its place."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.tiers import ModelTier
from runtime.model_gateway.counting.belief import believed, is_believable
from runtime.model_gateway.counting.output import tokens_bound, tokens_floor
from runtime.model_gateway.counting.reports import Reported, anthropic_usage, openai_usage
from runtime.model_gateway.measured import Measured, Metered, Produced, UsageSource
from runtime.model_gateway.model_request import Payload
from tests.runtime.model_gateway.counting.world import a_payload, a_request, a_tier

HELD = 1_000
OPEN = a_tier(hidden_reasoning=False)
UNSAID = a_tier()
HIDING = a_tier(hidden_reasoning=True)
WROTE = 400


def settled(
    usage: Any, *, tier: ModelTier = OPEN, wrote: int | None = WROTE, payload: Payload | None = None
) -> Measured:
    produced = None if wrote is None else Produced(text_bytes=wrote)
    found: Metered = believed(openai_usage(usage), produced, payload or a_payload(held=HELD), tier)
    assert isinstance(found, Measured)
    return found


def usage(output: Any = 100, *, paid_in: Any = 20, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": paid_in, "completion_tokens": output, **more}


def test_a_report_that_can_be_true_is_believed_as_it_is() -> None:
    found = settled(usage(prompt_tokens_details={"cached_tokens": 5}))

    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (20, 100, 5)
    assert (found.source, found.doubt) == (UsageSource.PROVIDER, "")


@pytest.mark.requirement("count.usage-that-lies")
@pytest.mark.parametrize("lie", [-1, 1.5, True, "12", 2**40, [], {}])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_figure_that_is_no_number_is_counted_and_the_other_stands(name: str, lie: Any) -> None:
    found = settled({**usage(), name: lie})

    assert name in found.doubt
    assert found.source is UsageSource.BOUND
    if name == "prompt_tokens":
        assert found.input_tokens == a_payload().input_tokens_max
        assert found.output_tokens == 100
    else:
        assert found.input_tokens == 20
        assert WROTE <= found.output_tokens <= HELD


@pytest.mark.parametrize("lie", [[], "none", 7, True])
def test_a_usage_that_is_no_object_is_no_report(lie: Any) -> None:
    found = settled(lie)

    assert found.source is UsageSource.BOUND
    assert "usage is no number of tokens" in found.doubt


@pytest.mark.requirement("count.usage-that-lies")
def test_no_report_at_all_is_settled_by_the_bytes() -> None:
    found = settled(None)

    assert found.source is UsageSource.BOUND
    assert WROTE <= found.output_tokens <= HELD


@pytest.mark.requirement("count.never-below-what-is-proven")
@pytest.mark.parametrize("tier", [OPEN, UNSAID, HIDING])
def test_a_text_that_proves_more_than_was_held_is_charged_for_what_it_proves(
    tier: ModelTier,
) -> None:
    found = settled(None, tier=tier, wrote=1_000_000)

    assert found.output_tokens == tokens_floor(Produced(text_bytes=1_000_000)) > HELD


@pytest.mark.parametrize("lie", [0, 10_000_000])
def test_input_that_cannot_be_is_bounded_by_what_was_sent(lie: int) -> None:
    found = settled(usage(paid_in=lie))

    assert found.input_tokens == a_payload().input_tokens_max
    assert f"{lie} input tokens" in found.doubt


@pytest.mark.parametrize(
    ("reported", "tier", "output", "source", "doubted"),
    [
        # More than its bytes could carry, but no more than was held: it stands on the bill.
        (900, OPEN, 900, UsageSource.PROVIDER, True),
        # The same where reasoning is hidden is no wonder.
        (900, HIDING, 900, UsageSource.PROVIDER, False),
        # More than was held and than the text can be.
        (5_000, OPEN, HELD, UsageSource.HELD, True),
        (5_000, UNSAID, 5_000, UsageSource.PROVIDER, True),
        (5_000, HIDING, 5_000, UsageSource.PROVIDER, True),
        (2**30, HIDING, HELD, UsageSource.HELD, True),
        # Less than any tokenizer makes of the text.
        (0, OPEN, WROTE + 48, UsageSource.BOUND, True),
        (0, HIDING, HELD, UsageSource.HELD, True),
    ],
)
@pytest.mark.requirement("count.usage-that-lies")
def test_output_is_believed_as_far_as_it_can_stand_on_a_bill(
    reported: int, tier: ModelTier, output: int, source: UsageSource, *, doubted: bool
) -> None:
    found = settled(usage(reported), tier=tier)

    assert (found.output_tokens, found.source) == (output, source)
    assert bool(found.doubt) is doubted


def test_an_overrun_that_the_text_can_be_is_believed() -> None:
    found = settled(usage(1_500), wrote=6_000)

    assert (found.output_tokens, found.source, found.doubt) == (1_500, UsageSource.PROVIDER, "")


def test_hidden_reasoning_in_the_total_alone_is_counted() -> None:
    assert settled(usage(total_tokens=250), tier=HIDING).output_tokens == 230


@pytest.mark.parametrize(
    ("details", "cached", "written"),
    [
        ({"cached_tokens": 21}, 0, 0),
        ({"cached_tokens": -1}, 0, 0),
        ({"cached_tokens": 1.0}, 0, 0),
        ({"cached_tokens": True}, 0, 0),
        ({"cached_tokens": 15, "cache_write_tokens": 10}, 0, 10),
        ({"cache_write_tokens": 99}, 0, 20),
        ("nonsense", 0, 0),
    ],
)
def test_a_rebate_that_cannot_be_is_lost_and_nothing_else(
    details: Any, cached: int, written: int
) -> None:
    found = settled(usage(prompt_tokens_details=details))

    assert (found.input_tokens, found.output_tokens) == (20, 100)
    assert (found.cached_tokens, found.cache_write_tokens) == (cached, written)
    assert found.doubt


def test_anthropics_figures_are_parts_of_the_whole_input() -> None:
    reported = anthropic_usage(
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 4,
            "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3},
            "output_tokens": 90,
        }
    )
    found = believed(reported, Produced(text_bytes=WROTE), a_payload(held=HELD), OPEN)

    assert found == Measured(
        input_tokens=19,
        output_tokens=90,
        cached_tokens=5,
        cache_write_tokens=4,
        cache_write_1h_tokens=3,
    )


def test_a_report_from_before_more_was_written_is_only_the_least() -> None:
    stale = Reported(input_tokens=10, output_tokens=1, covered_bytes=0)
    found = believed(stale, Produced(text_bytes=WROTE), a_payload(held=HELD), OPEN)

    assert isinstance(found, Measured)
    assert found.input_tokens == 10
    assert found.output_tokens == WROTE + 48
    assert found.source is UsageSource.BOUND


def test_embeddings_write_nothing_and_need_no_word_of_it() -> None:
    found = believed(openai_usage({"prompt_tokens": 9}), Produced(), a_payload(held=0), OPEN)

    assert found == Measured(input_tokens=9, output_tokens=0)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just([]), st.just({})
)


@pytest.mark.requirement("count.usage-that-lies")
@settings(max_examples=400, deadline=None)
@given(
    report=st.one_of(
        ANYTHING,
        st.fixed_dictionaries(
            {},
            optional={
                name: ANYTHING | st.integers(-5, 3_000)
                for name in (
                    "prompt_tokens",
                    "completion_tokens",
                    "total_tokens",
                    "input_tokens",
                    "output_tokens",
                    "cache_read_input_tokens",
                    "cache_creation_input_tokens",
                )
            }
            | {
                "prompt_tokens_details": ANYTHING
                | st.fixed_dictionaries({"cached_tokens": ANYTHING | st.integers(-5, 3_000)}),
                "cache_creation": ANYTHING
                | st.fixed_dictionaries({"ephemeral_1h_input_tokens": ANYTHING}),
            },
        ),
    ),
    text_bytes=st.integers(0, 10_000),
    hides=st.booleans(),
    by_anthropic=st.booleans(),
)
def test_whatever_is_reported_what_is_settled_can_be_charged_and_is_never_too_little(
    report: Any, text_bytes: int, *, hides: bool, by_anthropic: bool
) -> None:
    read = (anthropic_usage if by_anthropic else openai_usage)(report)
    produced = Produced(text_bytes=text_bytes)
    payload = a_payload(a_request(), held=HELD)
    found = believed(read, produced, payload, a_tier(hidden_reasoning=hides))

    assert isinstance(found, Measured)
    assert 0 < found.input_tokens <= payload.input_tokens_max
    assert found.cached_tokens + found.cache_write_tokens <= found.input_tokens
    assert 0 <= found.cache_write_1h_tokens <= found.cache_write_tokens
    assert tokens_floor(produced) <= found.output_tokens
    if not hides:
        assert found.output_tokens <= max(HELD, tokens_bound(produced, payload))


@settings(max_examples=200, deadline=None)
@given(output=st.integers(0, 3_000), text_bytes=st.integers(0, 3_000))
def test_what_needs_no_look_at_the_text_would_have_been_believed_with_it(
    output: int, text_bytes: int
) -> None:
    payload = a_payload(held=HELD)
    if is_believable(output, text_bytes_max=text_bytes, payload=payload):
        found = settled(usage(output), wrote=text_bytes, payload=payload)

        assert (found.output_tokens, found.doubt) == (output, "")
