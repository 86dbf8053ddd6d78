from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidPriceError
from governor.pricing import PRICE_MAX, ListedPrice, ModelPrice, PriceList

SMALL = ModelPrice(input_microusd_per_mtok=150_000, output_microusd_per_mtok=600_000)
LARGE = ModelPrice(input_microusd_per_mtok=2_500_000, output_microusd_per_mtok=10_000_000)


def listed(provider: str, model: str, price: ModelPrice = SMALL) -> ListedPrice:
    return ListedPrice(provider=provider, model=model, price=price)


@pytest.mark.parametrize("wrong", [-1, PRICE_MAX + 1, 1.5, True, "1"])
@pytest.mark.parametrize(
    "field",
    [
        "input_microusd_per_mtok",
        "output_microusd_per_mtok",
        "cached_input_microusd_per_mtok",
        "cache_write_microusd_per_mtok",
        "cache_write_1h_microusd_per_mtok",
    ],
)
def test_what_is_no_price_is_refused_with_its_field(field: str, wrong: Any) -> None:
    figures: dict[str, Any] = {"input_microusd_per_mtok": 1, "output_microusd_per_mtok": 1}

    with pytest.raises(InvalidPriceError, match=f"^{field}: "):
        ModelPrice(**(figures | {field: wrong}))


def test_a_price_that_stands_twice_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidPriceError, match=r"^price\[2\]: openai gpt-\* is listed before"):
        PriceList(
            prices=(listed("openai", "gpt-*"), listed("*", "gpt-*"), listed("openai", "gpt-*"))
        )


def test_the_first_price_that_covers_a_model_is_its() -> None:
    prices = PriceList(prices=(listed("openai", "gpt-*-mini"), listed("*", "gpt-*", LARGE)))

    assert prices.price_for(provider="openai", model="gpt-4o-mini") == SMALL
    assert prices.price_for(provider="other", model="gpt-4o-mini") == LARGE


@pytest.mark.requirement("price.unknown-is-ceiling-or-refused")
def test_an_unknown_model_costs_the_ceiling_and_has_no_price_without_one() -> None:
    without, with_ceiling = PriceList(), PriceList(unknown=LARGE)

    assert without.price_for(provider="p", model="m") is None
    assert with_ceiling.price_for(provider="p", model="m") == LARGE


def test_cached_input_that_is_dearer_than_input_is_refused() -> None:
    with pytest.raises(InvalidPriceError, match=r"^cached_input_microusd_per_mtok: 2 is above"):
        ModelPrice(
            input_microusd_per_mtok=1, output_microusd_per_mtok=0, cached_input_microusd_per_mtok=2
        )


@st.composite
def _a_price(draw: st.DrawFn) -> ModelPrice:
    paid_in = draw(st.integers(0, PRICE_MAX))
    return ModelPrice(
        input_microusd_per_mtok=paid_in,
        output_microusd_per_mtok=draw(st.integers(0, PRICE_MAX)),
        cached_input_microusd_per_mtok=draw(st.none() | st.integers(0, paid_in)),
        cache_write_microusd_per_mtok=draw(st.none() | st.integers(0, PRICE_MAX)),
        cache_write_1h_microusd_per_mtok=draw(st.none() | st.integers(0, PRICE_MAX)),
    )


_price = _a_price()
_text = st.text(max_size=3)
_lists = st.builds(
    PriceList,
    prices=st.lists(
        st.builds(
            ListedPrice, provider=st.text(max_size=3), model=st.text(max_size=3), price=_price
        ),
        max_size=3,
        unique_by=lambda one: (one.provider, one.model),
    ).map(tuple),
    unknown=st.none() | _price,
)


@given(_lists, _lists)
def test_two_lists_have_the_same_version_exactly_if_they_are_equal(
    one: PriceList, two: PriceList
) -> None:
    assert (one.version == two.version) == (one == two)


@pytest.mark.requirement("price.cached-input")
@given(_price, st.integers(0, 10**9), st.integers(0, 10**9), st.data())
def test_a_call_never_costs_more_for_being_cached_nor_less_than_nothing(
    price: ModelPrice, input_tokens: int, output_tokens: int, data: st.DataObject
) -> None:
    cached_tokens = data.draw(st.integers(0, input_tokens))
    uncached = price.cost_microusd(input_tokens=input_tokens, output_tokens=output_tokens)
    cost = price.cost_microusd(
        input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens
    )

    assert 0 <= cost <= uncached
    if price.cached_input_microusd_per_mtok is None:
        assert cost == uncached


def test_what_is_written_to_a_cache_costs_its_own_price() -> None:
    price = ModelPrice(
        input_microusd_per_mtok=3_000_000,
        output_microusd_per_mtok=15_000_000,
        cached_input_microusd_per_mtok=300_000,
        cache_write_microusd_per_mtok=3_750_000,
        cache_write_1h_microusd_per_mtok=6_000_000,
    )

    cost = price.cost_microusd(
        input_tokens=1_000,
        output_tokens=100,
        cached_tokens=200,
        cache_write_tokens=500,
        cache_write_1h_tokens=100,
    )

    assert cost == (300 * 3_000 + 200 * 300 + 400 * 3_750 + 100 * 6_000 + 100 * 15_000) // 1_000


@pytest.mark.requirement("price.cache-writes")
@given(_price, st.integers(0, 10**9), st.integers(0, 10**9), st.data())
def test_no_call_costs_more_than_the_most_that_is_held_for_it(
    price: ModelPrice, input_tokens: int, output_tokens: int, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, input_tokens))
    written = data.draw(st.integers(0, input_tokens - cached))
    hour = data.draw(st.integers(0, written))
    held = price.held(may_write=written > hour, may_write_1h=hour > 0)
    most = held.cost_microusd(input_tokens=input_tokens, output_tokens=output_tokens)

    cost = price.cost_microusd(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
    )

    assert cost <= most


def test_a_list_without_prices_of_cache_writes_has_the_version_it_always_had() -> None:
    prices = PriceList(
        prices=(
            listed(
                "openai",
                "gpt-*",
                ModelPrice(
                    input_microusd_per_mtok=150_000,
                    output_microusd_per_mtok=600_000,
                    cached_input_microusd_per_mtok=75_000,
                ),
            ),
        ),
        unknown=ModelPrice(input_microusd_per_mtok=1, output_microusd_per_mtok=2),
    )

    assert prices.version == "6a1f10cb0413"
