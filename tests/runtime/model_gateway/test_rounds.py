"""Answers in several rounds over real connections: what is held, charged, recorded and told."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from governor.amounts import Unit
from governor.call import CallStatus
from governor.effort import AnswerMode, Effort, EffortStyle
from governor.ids import TierName
from governor.learning.averages import UsualTokens
from governor.tiers import ModelTier
from runtime.model_gateway.kept_answers import Keeping, KeptPolicy
from runtime.router.preparing import TierPreparer
from runtime.router.strategist import Strategist
from runtime.router.strategy_terms import StrategyTerms
from runtime.strategies import Strategies
from tests.runtime.model_gateway.bench import KEPT_NOTHING, House, completion, open_house, price

pytestmark = pytest.mark.anyio

Says = Callable[[dict[str, Any]], str]
CASCADE = {"Flyball-Strategy": "cascade"}
AUCTION = {"Flyball-Strategy": "auction"}
JSON_MODE = {"response_format": {"type": "json_object"}}
# Ten tokens in and five out, as the scripted provider reports: 20 and 100 micro-dollars.
LOW_COST, HIGH_COST = 20, 100


def tiers(**more: Any) -> tuple[ModelTier, ModelTier]:
    def one(name: str, usd: int) -> ModelTier:
        return ModelTier(
            name=TierName(name),
            provider="lab",
            model=f"{name}-1",
            price=price(input_usd=usd, output_usd=2 * usd),
            **{"output_tokens_max": 100, **more},
        )

    return one("low", 1), one("high", 5)


@asynccontextmanager
async def rounds_house(
    *,
    terms: StrategyTerms | None = None,
    says: Says | None = None,
    budget: int = 10_000_000,
    answers: KeptPolicy = KEPT_NOTHING,
    **more: Any,
) -> AsyncIterator[House]:
    """Yield a house whose provider answers by the body that it gets."""
    usual = UsualTokens()
    marks = iter(f"mark{number}" for number in range(1000))
    strategist = Strategist(
        terms or StrategyTerms(samples=0, value_microusd=10_000_000),
        usual=usual,
        mark=lambda _: next(marks),
    )
    preparer = TierPreparer(usual=usual, learned=strategist.learned, mark=lambda _: next(marks))
    with anyio.fail_after(120):
        async with open_house(
            tiers=tiers(**more),
            strategies=Strategies(preparer=preparer, strategist=strategist),
            answers=answers,
        ) as house:
            house.budget(cost_microusd=budget)
            speak = says or (lambda _: "eight")

            async def answer(request: httpx.Request) -> httpx.Response:
                said = speak(json.loads(request.content))
                message = {"role": "assistant", "content": said}
                return httpx.Response(
                    200,
                    json=completion(
                        choices=[{"index": 0, "message": message, "finish_reason": "stop"}]
                    ),
                )

            house.handler = answer
            yield house


def text(response: httpx.Response) -> str:
    found: str = response.json()["choices"][0]["message"]["content"]
    return found


def models_asked(house: House) -> list[str]:
    return [json.loads(request.content)["model"] for request in house.requests]


def json_at_high(body: dict[str, Any]) -> str:
    return '{"legs": 8}' if body["model"] == "high-1" else "eight legs"


@pytest.mark.requirement("model.cascade-escalates-what-is-unusable")
async def test_a_cascade_escalates_an_answer_that_is_no_json_and_charges_both_rounds() -> None:
    async with rounds_house(says=json_at_high) as house:
        response = await house.chat(model="auto", headers=CASCADE, **JSON_MODE)

        assert await house.ledger.spent() == (LOW_COST + HIGH_COST, 0)
    assert text(response) == '{"legs": 8}'
    assert models_asked(house) == ["low-1", "high-1"]
    told = response.json()["flyball"]["strategy"]
    assert told["cost_microusd"] == LOW_COST + HIGH_COST
    assert response.headers["flyball-rounds"] == "2"
    first, second = house.ledger.records
    assert first.turn == second.turn
    assert f"of {first.call_id}" in second.rule
    assert [first.status, second.status] == [CallStatus.OK, CallStatus.OK]


async def test_a_cascade_keeps_an_answer_that_is_valid_and_good_enough() -> None:
    terms = StrategyTerms(samples=0, value_microusd=1_500)
    async with rounds_house(terms=terms, says=lambda _: '{"legs": 8}') as house:
        response = await house.chat(model="auto", headers=CASCADE, **JSON_MODE)

        assert await house.ledger.spent() == (LOW_COST, 0)
    assert text(response) == '{"legs": 8}'
    assert models_asked(house) == ["low-1"]


@pytest.mark.requirement("model.cascade-denied-midway-returns-the-best")
@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_budget_for_so_many_rounds_allows_exactly_so_many(rounds: int) -> None:
    """The room for a round is what it is held for, which is more than it costs."""
    async with rounds_house(says=json_at_high) as house:
        await house.chat(model="auto", headers=CASCADE, **JSON_MODE)
        room = [record.estimate.by_unit[Unit.COST_MICROUSD] for record in house.ledger.records]
    # Output is clamped to what can be paid for, down to sixteen tokens; one less is denied.
    least = room[1] - (100 - 16) * 10
    enough = LOW_COST + least
    budget = enough if rounds == 2 else enough - 1

    async with rounds_house(says=json_at_high, budget=max(budget, room[0])) as house:
        response = await house.chat(model="auto", headers=CASCADE, **JSON_MODE)
        spent = await house.ledger.spent()

    assert response.status_code == 200
    assert len(house.requests) == rounds
    assert spent == ((LOW_COST, 0) if rounds == 1 else (LOW_COST + HIGH_COST, 0))
    told = response.json()["flyball"]["strategy"]
    assert ("best answer that the budget allowed" in told["why"]) is (rounds == 1)
    assert [record.status for record in house.ledger.records] == (
        [CallStatus.OK, CallStatus.DENIED] if rounds == 1 else [CallStatus.OK, CallStatus.OK]
    )


async def test_a_budget_for_no_round_is_a_denial_and_nothing_leaves() -> None:
    async with rounds_house(budget=1) as house:
        response = await house.chat(model="auto", headers=CASCADE)

    assert response.status_code == 429
    assert "denial" in response.json()["flyball"]
    assert house.requests == []


@pytest.mark.requirement("model.auction-bids-are-calls")
async def test_every_bid_is_charged_and_recorded_in_the_turn_of_the_answer() -> None:
    def says(body: dict[str, Any]) -> str:
        if "You bid for a question" in json.dumps(body):
            chance = 0.95 if body["model"] == "high-1" else 0.1
            return json.dumps({"plan": "count them", "chance": chance, "tokens": 20})
        return f"by {body['model']}"

    async with rounds_house(says=says) as house:
        response = await house.chat(model="auto", headers=AUCTION)

        assert await house.ledger.spent() == (LOW_COST + HIGH_COST + HIGH_COST, 0)
    assert text(response) == "by high-1"
    assert len({record.turn for record in house.ledger.records}) == 1
    assert [record.rule.count("auction") for record in house.ledger.records] == [1, 1, 1]
    assert "\ncount them\n</plan mark" in house.sent["messages"][-1]["content"]


async def test_bids_that_nobody_can_read_are_told_and_soon_not_asked_for() -> None:
    async with rounds_house(says=lambda _: "I would rather not") as house:
        answers = [await house.chat(model="auto", headers=AUCTION) for _ in range(5)]

        told = [answer.json()["flyball"]["strategy"] for answer in answers]
        assert [one["name"] for one in told] == ["auction"] * 5
        assert "the bids of low, high could not be read" in told[0]["why"]
        assert [len(one["rounds"]) for one in told] == [3, 3, 3, 1, 1]
        assert sum(one["cost_microusd"] for one in told) == (await house.ledger.spent())[0]


async def test_a_tier_whose_bids_were_not_read_is_asked_again_after_some_auctions() -> None:
    says = {"words": "no"}
    async with rounds_house(says=lambda _: says["words"]) as house:
        for _ in range(3):
            await house.chat(model="auto", headers=AUCTION)
        says["words"] = '{"plan": "", "chance": 0.5, "tokens": 20}'
        counts = []
        for _ in range(22):
            answer = await house.chat(model="auto", headers=AUCTION)
            counts.append(answer.headers["flyball-rounds"])

    assert counts == ["1"] * 20 + ["3"] * 2


@pytest.mark.requirement("model.rounds-stream-as-one-answer")
async def test_a_client_that_streams_gets_the_last_answer_as_one_stream() -> None:
    async with rounds_house(says=json_at_high) as house:
        response = await house.chat(
            model="auto",
            headers=CASCADE,
            stream=True,
            stream_options={"include_usage": True},
            **JSON_MODE,
        )

    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["flyball-rounds"] == "2"
    blocks = response.text.strip().split("\n\n")
    assert blocks[-1] == "data: [DONE]"
    chunks = [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]
    said = "".join(
        chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]
    )
    assert said == '{"legs": 8}'
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    assert [json.loads(request.content).get("stream") for request in house.requests] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("choices", "status"),
    [
        (b'[{"message":"eight"}]', 200),
        (b'[{"message":[1],"logprobs":3},5,null]', 200),
        (b'[{"message":{"content":[1,2],"tool_calls":[7]}}]', 200),
        # Half of a surrogate pair can be read from JSON, and written to none.
        (b'[{"message":{"content":"\\ud800"}}]', 502),
    ],
)
async def test_an_odd_answer_is_told_as_a_stream_or_as_the_providers_fault(
    choices: bytes, status: int
) -> None:
    async def odd(_: httpx.Request) -> httpx.Response:
        usage = b'{"prompt_tokens":10,"completion_tokens":5}'
        return httpx.Response(200, content=b'{"choices":%b,"usage":%b}' % (choices, usage))

    async with rounds_house() as house:
        house.handler = odd
        response = await house.chat(model="auto", headers=CASCADE, stream=True)

    assert response.status_code == status
    if status == 200:
        assert response.text.endswith("data: [DONE]\n\n")
    else:
        assert response.json()["error"]["code"] == "provider_failed"
        assert response.json()["flyball"]["strategy"]["rounds"]


async def test_a_strategy_that_there_is_not_is_refused_with_those_there_are() -> None:
    async with rounds_house() as house:
        response = await house.chat(model="auto", headers={"Flyball-Strategy": "lottery"})

    assert response.status_code == 400
    assert "single, cascade, auction" in response.json()["error"]["message"]


async def test_a_named_model_is_one_call_and_says_why_it_is_no_cascade() -> None:
    async with rounds_house() as house:
        named = await house.chat(model="low", headers=CASCADE)
        rule = house.record.rule
        single = await house.chat(model="low", headers={"Flyball-Strategy": "single"})
        many = await house.chat(model="auto", headers=CASCADE, n=2)

    assert (named.status_code, single.status_code, many.status_code) == (200, 200, 200)
    assert named.json()["flyball"]["why"].endswith("; no cascade: only auto is answered in rounds")
    assert "no cascade" in rule
    assert "no cascade" not in single.json()["flyball"]["why"]
    assert "no cascade: the request cannot be answered in rounds" in many.json()["flyball"]["why"]


async def test_a_key_that_makes_a_request_repeatable_is_answered_in_one_call() -> None:
    async with rounds_house() as house:
        headers = {**CASCADE, "Idempotency-Key": "k1"}
        response = await house.chat(model="auto", headers=headers, **JSON_MODE)

    assert response.status_code == 200
    assert len(house.requests) == 1
    assert "strategy" not in response.json()["flyball"]


@pytest.mark.requirement("model.effort-in-each-providers-terms")
async def test_an_effort_of_the_client_arrives_and_what_is_held_grows_with_it() -> None:
    more = {"effort_style": EffortStyle.LLAMA_CPP, "output_tokens_max": 32_000}
    async with rounds_house(budget=10**9, **more) as house:
        held = []
        for headers in ({"Flyball-Mode": "instant"}, {"Flyball-Effort": "0.5"}, {}):
            await house.chat(model="low", max_tokens=500, headers=headers)
            held.append(house.record.estimate.by_unit[Unit.OUTPUT_TOKENS])

    instant, half, usual = (json.loads(request.content) for request in house.requests)
    assert instant["chat_template_kwargs"] == {"enable_thinking": False}
    assert half["thinking_budget_tokens"] == 2_048
    assert "thinking_budget_tokens" not in usual
    assert held == [500, 2_548, 500]
    assert "effort: 0.5 of the usual is 2048 tokens" in house.ledger.records[1].rule


async def test_a_budget_that_pays_for_less_output_pays_for_less_thinking() -> None:
    more = {"effort_style": EffortStyle.LLAMA_CPP, "output_tokens_max": 8_000}
    async with rounds_house(budget=6_000, **more) as house:
        response = await house.chat(model="low", max_tokens=1_000, headers={"Flyball-Effort": "1"})

    assert response.status_code == 200
    assert "clamped" in response.json()["flyball"]
    assert house.sent["max_tokens"] < 3_000
    assert 1_024 <= house.sent["thinking_budget_tokens"] < house.sent["max_tokens"]


async def test_a_tier_is_asked_as_it_is_set_and_says_what_could_not_be_sent() -> None:
    set_up = {"effort": Effort(fraction=2.0), "mode": AnswerMode.REASONING}
    async with rounds_house(**set_up) as house:
        response = await house.chat(model="low")

    assert "mode: reasoning" in response.json()["flyball"]["why"]
    assert "has no effort_style, nothing is sent" in response.json()["flyball"]["why"]
    assert "reasoning_effort" not in house.sent


async def test_an_answer_that_was_kept_at_one_effort_is_not_given_for_another() -> None:
    kept = KeptPolicy(keeping=Keeping.ALWAYS)
    async with rounds_house(answers=kept, effort_style=EffortStyle.OPENAI) as house:
        for effort in ("0.3", "2", "0.3"):
            response = await house.chat(headers={"Flyball-Effort": effort})
            assert response.status_code == 200

    told = [json.loads(request.content).get("reasoning_effort") for request in house.requests]
    assert len(told) == len(set(told)) == 2
