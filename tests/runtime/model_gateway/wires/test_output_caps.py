"""What bounds the output of a chat completion, whichever field its server knows."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.model_gateway.errors import InvalidRequestError
from tests.runtime.model_gateway.wires.makers import WIRES, a_tier, parsed, sent

CHAT = WIRES["openai_chat"]
NEW, OLD, OWN = "max_completion_tokens", "max_tokens", "n_predict"
TIER = a_tier(output_tokens_max=1_000)


@pytest.mark.requirement("model.output-is-bounded-on-every-server")
@pytest.mark.parametrize(
    ("known", "asked", "bounds"),
    [
        ((), {}, {NEW: 1_000}),
        ((), {OLD: 50}, {OLD: 50}),
        ((), {OLD: 5_000, NEW: 7}, {OLD: 1_000, NEW: 7}),
        ((NEW, OLD), {}, {NEW: 1_000, OLD: 1_000}),
        ((NEW, OLD), {OLD: 50}, {NEW: 50, OLD: 50}),
        ((NEW, OLD), {NEW: 50}, {NEW: 50, OLD: 50}),
        ((OLD,), {NEW: 50}, {OLD: 50}),
        ((NEW,), {OLD: 50}, {NEW: 50}),
        ((), {OLD: 50, OWN: 50_000}, {OLD: 50, OWN: 1_000}),
        ((), {OWN: 20}, {NEW: 20, OWN: 20}),
        ((), {OWN: -1}, {NEW: 1_000}),
        ((), {OWN: "many"}, {NEW: 1_000}),
    ],
)
def test_the_output_is_bounded_by_the_fields_that_the_server_knows(
    known: tuple[str, ...], asked: dict[str, Any], bounds: dict[str, int]
) -> None:
    request = parsed(CHAT, {"model": "x", "messages": [{"role": "user", "content": "hi"}], **asked})
    payload = CHAT.payload(request, replace(TIER, output_caps=known))

    body = sent(payload)
    assert {name: body[name] for name in (NEW, OLD, OWN) if name in body} == bounds
    assert payload.output_tokens_max == max(bounds.values())


def test_choices_by_another_name_are_held_as_well() -> None:
    request = parsed(
        CHAT, {"model": "x", "messages": [{"role": "user", "content": "hi"}], "n_cmpl": 3}
    )

    assert CHAT.payload(request, TIER).output_tokens_max == 3_000


def test_choices_that_nobody_is_shown_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not served"):
        parsed(CHAT, {"model": "x", "messages": [{"role": "user", "content": "hi"}], "best_of": 3})
