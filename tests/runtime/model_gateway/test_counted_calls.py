"""Calls through the whole gateway, by who counted their tokens and at which price."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from governor.amounts import Unit
from governor.pricing import ModelPrice
from runtime.model_gateway.counting.tokenizer import TOKENIZERS, Tokenizer, Tokenizers
from tests.model_upstream.chat_goldens import CHAT as GOLDENS
from tests.model_upstream.golden import Truth
from tests.model_upstream.messages_goldens import message
from tests.model_upstream.upstream import an_upstream, answering, broken_at, streaming
from tests.runtime.model_gateway.bench import CHAT, completion, open_house, tier

pytestmark = pytest.mark.anyio

SECONDS_MAX = 100
SILENT = next(golden for golden in GOLDENS if golden.name == "no usage")
BY_ANTHROPIC = ModelPrice(
    input_microusd_per_mtok=3_000_000,
    output_microusd_per_mtok=15_000_000,
    cached_input_microusd_per_mtok=300_000,
    cache_write_microusd_per_mtok=3_750_000,
    cache_write_1h_microusd_per_mtok=6_000_000,
)


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> str:
    pytest.importorskip("tiktoken", reason="the extra flyball[tokenizers]")
    pytest.importorskip("tokenizers", reason="the extra flyball[tokenizers]")
    from tests.runtime.model_gateway.counting.tokenizer_files import write_ranks  # noqa: PLC0415

    return str(write_ranks(tmp_path))


@pytest.mark.requirement("count.tokenizer-exact")
async def test_a_stream_without_usage_is_charged_what_the_tiers_tokenizer_counts(
    tokenizer_file: str,
) -> None:
    count = Tokenizers().load(tokenizer_file).count
    tiers = (replace(tier(), tokenizer=tokenizer_file),)
    with anyio.fail_after(SECONDS_MAX):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, tiers=tiers) as house,
        ):
            house.budget(cost_microusd=1_000_000_000)
            upstream.plays(streaming(SILENT.events))
            await house.client.post(CHAT, json=SILENT.request)
            spent = await house.ledger.spent()

    # OpenAI's own rule for one message of plain text.
    input_tokens = 3 + 3 + count("user") + count("Say hello.")
    assert spent == (input_tokens + 2 * count(SILENT.text), 0)
    assert house.record.usage_source == "tokenizer"
    assert house.record.detail == "the provider reported no usage"


async def test_a_stream_that_broke_off_is_counted_as_far_as_it_came(tokenizer_file: str) -> None:
    count = Tokenizers().load(tokenizer_file).count
    tiers = (replace(tier(), tokenizer=tokenizer_file),)
    place = sum(len(event) for event in SILENT.events[:3])
    with anyio.fail_after(SECONDS_MAX):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, tiers=tiers) as house,
        ):
            house.budget(cost_microusd=1_000_000_000)
            upstream.plays(broken_at(SILENT.content, place))
            await house.client.post(CHAT, json=SILENT.request)

    assert house.record.usage is not None
    assert house.record.usage.measured.of(Unit.OUTPUT_TOKENS) == count("Hello")
    assert house.record.usage_source == "tokenizer"


async def test_a_whole_answer_without_usage_is_counted_as_well(tokenizer_file: str) -> None:
    count = Tokenizers().load(tokenizer_file).count
    async with open_house(tiers=(replace(tier(), tokenizer=tokenizer_file),)) as house:
        house.budget(cost_microusd=1_000_000)
        answer = completion()
        del answer["usage"]
        house.provider_answers(json=answer)
        response = await house.chat("hi")

    member = response.json()["flyball"]
    assert member["usage_source"] == "tokenizer"
    assert member["usage"]["output_tokens"] == count("hello")


async def test_a_tokenizer_that_cannot_be_used_leaves_the_bound(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    async with open_house(tiers=(replace(tier(), tokenizer=str(broken)),)) as house:
        house.budget(cost_microusd=1_000_000)
        answer = completion()
        del answer["usage"]
        house.provider_answers(json=answer)
        response = await house.chat("hi")

    assert response.status_code == 200
    assert response.json()["flyball"]["usage_source"] == "bound"
    assert "the tokenizer of tier low cannot be used" in house.record.detail


class Panic(BaseException):
    """What a compiled library raises where its own code fails."""


@pytest.mark.requirement("count.failing-tokenizer-ends-no-call")
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_tokenizer_that_panics_costs_no_hold(
    monkeypatch: pytest.MonkeyPatch, *, is_streamed: bool
) -> None:
    def panic(_text: str) -> int:
        raise Panic

    monkeypatch.setitem(TOKENIZERS._found, "panics", Tokenizer(panic, by_openai=True))
    tiers = (replace(tier(), tokenizer="panics"),)
    whole = completion()
    del whole["usage"]
    with anyio.fail_after(SECONDS_MAX):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, tiers=tiers) as house,
        ):
            house.budget(cost_microusd=1_000_000_000)
            upstream.plays(streaming(SILENT.events) if is_streamed else answering(whole))
            response = await house.client.post(
                CHAT, json={**SILENT.request, "stream": is_streamed, "max_tokens": 3}
            )
            used, held = await house.ledger.spent()

    assert response.status_code == 200
    assert held == 0
    assert 0 < used <= house.record.estimate.of(Unit.COST_MICROUSD) + 2 * len(SILENT.text)


async def test_what_fails_while_it_is_counted_is_charged_as_it_was_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("runtime.model_gateway.job.heard_of", fail)
    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream() as upstream, open_house(base_url=upstream.base_url) as house:
            house.budget(cost_microusd=1_000_000_000)
            upstream.plays(streaming(SILENT.events))
            with pytest.raises(MemoryError):
                await house.client.post(CHAT, json=SILENT.request)
            spent = await house.ledger.spent()

    assert spent == (house.record.estimate.of(Unit.COST_MICROUSD), 0)


@pytest.mark.requirement("price.cache-writes")
@pytest.mark.parametrize(
    ("control", "nanousd"),
    [(None, 3_000), ({"type": "ephemeral"}, 3_750), ({"type": "ephemeral", "ttl": "1h"}, 6_000)],
)
async def test_what_anthropic_writes_to_its_cache_is_held_and_charged_at_its_price(
    control: dict[str, str] | None, nanousd: int
) -> None:
    tiers = (replace(tier(priced=BY_ANTHROPIC), wires=("anthropic_messages",)),)
    truth = Truth(input_tokens=100, output_tokens=8, cached_tokens=20, cache_write_tokens=50)
    text = {"type": "text", "text": "hi " * 100}
    block = text if control is None else {**text, "cache_control": control}
    body = {"model": "low", "max_tokens": 50, "messages": [{"role": "user", "content": [block]}]}
    with anyio.fail_after(SECONDS_MAX):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, tiers=tiers) as house,
        ):
            house.budget(cost_microusd=1_000_000_000)
            upstream.plays(answering(message(truth)))
            response = await house.client.post("/v1/messages", json=body)
            spent = await house.ledger.spent()

    assert response.status_code == 200
    assert spent == (-(-(30 * 3_000 + 20 * 300 + 50 * 3_750 + 8 * 15_000) // 1_000), 0)
    held = house.record.estimate
    most = held.of(Unit.INPUT_TOKENS) * nanousd + 50 * 15_000
    assert held.of(Unit.COST_MICROUSD) == -(-most // 1_000)


async def test_an_hours_cache_is_refused_where_nobody_said_what_it_costs() -> None:
    unsaid = replace(BY_ANTHROPIC, cache_write_1h_microusd_per_mtok=None)
    tiers = (replace(tier(priced=unsaid), wires=("anthropic_messages",)),)
    control = {"type": "ephemeral", "ttl": "1h"}
    block = {"type": "text", "text": "hi", "cache_control": control}
    body = {"model": "low", "max_tokens": 50, "messages": [{"role": "user", "content": [block]}]}
    async with open_house(tiers=tiers) as house:
        house.budget(cost_microusd=1_000_000)
        response = await house.client.post("/v1/messages", json=body)

    assert response.status_code == 400
    assert "long_cache" in response.json()["error"]["message"]
    assert not house.requests
