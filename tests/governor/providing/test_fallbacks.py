"""Which tier is asked when another has failed."""

import pytest

from governor.ids import TierName
from governor.providing.fallbacks import next_fallback
from governor.tiers import ModelTier


def tier(name: str, *fallback: str, window: int | None = None, provider: str = "lab") -> ModelTier:
    return ModelTier(
        name=TierName(name),
        provider=provider,
        model=f"model-{name}",
        price=None,
        output_tokens_max=100,
        context_tokens_max=window,
        fallback=tuple(map(TierName, fallback)),
    )


LOW = tier("low", "mid", "high", window=8_000)
MID = tier("mid", "low", window=8_000)
HIGH = tier("high", window=200_000, provider="other")
TIERS = (LOW, MID, HIGH)


def next_after(*tried: str, is_for_size: bool = False, unfit: str = "") -> str | None:
    found = next_fallback(
        LOW,
        TIERS,
        tried={TierName(name) for name in tried},
        is_for_size=is_for_size,
        can_serve=lambda one: one.provider != unfit,
    )
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("tried", "following"),
    [(("low",), "mid"), (("low", "mid"), "high"), (("low", "mid", "high"), None)],
)
def test_the_tiers_that_are_named_are_asked_in_order_and_once(
    tried: tuple[str, ...], following: str | None
) -> None:
    assert next_after(*tried) == following


def test_a_tier_that_cannot_serve_the_request_now_is_passed_over() -> None:
    assert next_after("low", unfit="lab") == "high"
    assert next_after("low", "mid", unfit="other") is None


def test_what_is_too_long_goes_to_a_tier_that_says_it_takes_more() -> None:
    assert next_after("low", is_for_size=True) == "high"


def test_a_tier_that_does_not_say_what_it_takes_is_not_asked_for_size() -> None:
    silent = tier("high")
    named = tier("low", "high")

    found = next_fallback(
        named,
        (named, silent),
        tried={named.name},
        is_for_size=True,
        can_serve=lambda _: True,
    )

    assert found is None
