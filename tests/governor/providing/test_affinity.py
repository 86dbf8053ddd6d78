"""Whether a session stays where its prompt is warm."""

from hypothesis import given
from hypothesis import strategies as st

from governor.ids import TierName
from governor.pricing import ModelPrice
from governor.providing.affinity import (
    Expected,
    Home,
    Place,
    PromptCache,
    home_after,
    stays,
    warm_tokens,
    weighed,
)

CACHE = PromptCache(life_ms=300_000, tokens_min=1_024)
LAB = Place(provider="lab", model="big", key=0)


def price(input_usd: int, output_usd: int, cached_usd: int | None = None) -> ModelPrice:
    million = 1_000_000
    return ModelPrice(
        input_microusd_per_mtok=input_usd * million,
        output_microusd_per_mtok=output_usd * million,
        cached_input_microusd_per_mtok=None if cached_usd is None else cached_usd * million,
    )


HIGH, LOW = price(10, 30, 1), price(5, 15, 1)


def expected(priced: ModelPrice, *, tokens: int = 10_000, output: int = 100) -> Expected:
    return Expected(price=priced, input_tokens=tokens, output_tokens=output)


def home(*, calls: int = 1, warm: int = 10_000, at_ms: int = 0) -> Home:
    return Home(tier=TierName("high"), place=LAB, warm_tokens=warm, calls=calls, at_ms=at_ms)


def after(before: Home | None, *, tokens: int, cached: int = 0, now_ms: int = 0) -> Home:
    return home_after(
        before,
        tier=TierName("high"),
        place=LAB,
        cache=CACHE,
        input_tokens=tokens,
        cached_tokens=cached,
        now_ms=now_ms,
    )


def test_a_short_session_is_kept_from_a_tier_that_would_read_all_anew() -> None:
    # Warm it is 10 000 + 3 000; cold on the cheaper one 50 000 + 1 500.
    assert stays(home(), here=expected(HIGH), there=expected(LOW), warm=10_000)


def test_a_session_moves_where_what_is_still_to_come_pays_for_the_lost_cache() -> None:
    far_cheaper = price(1, 1, 0)

    assert not stays(home(calls=8), here=expected(HIGH), there=expected(far_cheaper), warm=10_000)


def test_a_session_goes_to_the_dearer_tier_that_it_was_sent_to() -> None:
    assert not stays(home(calls=1), here=expected(LOW), there=expected(HIGH), warm=10_000)


def test_without_a_warm_prompt_a_session_goes_where_it_is_sent() -> None:
    assert not stays(home(), here=expected(HIGH), there=expected(LOW), warm=0)


def test_without_a_price_for_cached_input_there_is_nothing_to_lose() -> None:
    here, there = expected(price(10, 30)), expected(price(5, 15))

    assert weighed(home(), here=here, there=there, warm=10_000).lost_microusd == 0
    assert not stays(home(), here=here, there=there, warm=10_000)


def test_a_prompt_is_warm_at_its_own_place_and_for_its_time() -> None:
    there = home(at_ms=1_000)

    assert warm_tokens(there, LAB, cache=CACHE, now_ms=300_999) == 10_000
    assert warm_tokens(there, LAB, cache=CACHE, now_ms=301_000) == 0
    for other in (
        Place(provider="lab", model="big", key=1),
        Place(provider="lab", model="small", key=0),
        Place(provider="other", model="big", key=0),
    ):
        assert warm_tokens(there, other, cache=CACHE, now_ms=1_000) == 0
    assert warm_tokens(there, Place(provider="lab", model="big"), cache=CACHE, now_ms=1_000)


def test_the_first_prompt_that_is_long_enough_is_expected_to_be_kept() -> None:
    assert after(None, tokens=5_000).warm_tokens == 5_000
    assert after(None, tokens=1_000).warm_tokens == 0


def test_what_was_expected_to_be_kept_and_was_not_is_not_expected_again() -> None:
    first = after(None, tokens=5_000)
    second = after(first, tokens=6_000, cached=0, now_ms=1_000)

    assert (second.warm_tokens, second.calls) == (0, 2)


def test_a_prompt_that_was_read_from_the_cache_is_kept_whole() -> None:
    first = after(None, tokens=5_000)

    assert after(first, tokens=6_000, cached=4_992, now_ms=1_000).warm_tokens == 6_000


def test_where_keeping_is_asked_for_only_what_was_written_or_read_is_warm() -> None:
    asked = PromptCache(is_automatic=False, tokens_min=1_024)

    def call(cached: int, write: int) -> int:
        return home_after(
            None,
            tier=TierName("high"),
            place=LAB,
            cache=asked,
            input_tokens=9_000,
            cached_tokens=cached,
            cache_write_tokens=write,
            now_ms=0,
        ).warm_tokens

    assert (call(0, 0), call(0, 4_000), call(4_000, 2_000)) == (0, 4_000, 6_000)


PRICES = st.builds(
    lambda paid, out, cached: ModelPrice(
        input_microusd_per_mtok=paid,
        output_microusd_per_mtok=out,
        cached_input_microusd_per_mtok=min(cached, paid),
    ),
    st.integers(min_value=0, max_value=10**8),
    st.integers(min_value=0, max_value=10**8),
    st.integers(min_value=0, max_value=10**8),
)


@given(here=PRICES, there=PRICES, tokens=st.integers(1, 10**6), calls=st.integers(1, 100))
def test_a_session_that_is_kept_would_not_have_paid_less_elsewhere(
    here: ModelPrice, there: ModelPrice, tokens: int, calls: int
) -> None:
    stay, move = expected(here, tokens=tokens), expected(there, tokens=tokens)

    if stays(home(calls=calls), here=stay, there=move, warm=tokens):
        expected_calls = min(calls, 16)
        staying = expected_calls * stay.cost_microusd(warm_tokens=tokens)
        moving = move.cost_microusd(warm_tokens=0) + (expected_calls - 1) * move.cost_microusd(
            warm_tokens=tokens
        )
        assert staying <= moving
