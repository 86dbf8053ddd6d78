"""Answers that are kept and given again: which, to whom, how long, and what they cost."""

from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.call import CallStatus
from governor.ids import CallId, PrincipalId, SessionId, TenantId
from governor.scope import ScopeChain
from governor.turn_policy import TurnMode, TurnPolicy, TurnTerms
from runtime.model_gateway.kept_answers import Keeping, KeptAnswers, KeptFor, KeptPolicy
from runtime.model_gateway.model_request import ModelRequest
from tests.model_upstream.chat_goldens import CHAT as GOLDENS
from tests.model_upstream.upstream import an_upstream, broken_at, streaming
from tests.runtime.model_gateway.bench import CHAT, completion, open_house
from tests.runtime.model_gateway.counting.world import a_payload, a_request, a_tier

pytestmark = pytest.mark.anyio

ALWAYS = KeptPolicy(keeping=Keeping.ALWAYS)
COLD = KeptPolicy(keeping=Keeping.DETERMINISTIC)
TEXT = next(golden for golden in GOLDENS if golden.name == "text")
ADA = ScopeChain(tenant=TenantId("acme"), agent=PrincipalId("ada"), session=SessionId("s1"))
BOB = replace(ADA, agent=PrincipalId("bob"))
RIVAL = replace(ADA, tenant=TenantId("rival"))
CALL = CallId("call_1")


def asking(text: str = "hi", **more: Any) -> ModelRequest:
    return a_request({"messages": [{"role": "user", "content": text}], **more})


def found(
    answers: KeptAnswers,
    request: ModelRequest,
    *,
    chain: ScopeChain = ADA,
    now_ms: int = 10,
    cache_control: str | None = None,
    model: str = "plain",
    path: str = "/chat/completions",
) -> bytes | None:
    keep = answers.keep_for(request, a_tier(model), chain, path=path, cache_control=cache_control)
    kept = answers.find(keep, now_ms=now_ms)
    return None if kept is None else kept.content


def keep(
    answers: KeptAnswers,
    request: ModelRequest,
    content: bytes = b"{}",
    *,
    chain: ScopeChain = ADA,
    now_ms: int = 0,
    held: int = 4_096,
    cache_control: str | None = None,
) -> None:
    path = "/chat/completions"
    kept = answers.keep_for(request, a_tier(), chain, path=path, cache_control=cache_control)
    payload = a_payload(request, held=held)
    answers.keep(kept, content, payload=payload, is_stream=False, call_id=CALL, now_ms=now_ms)


def test_nothing_is_kept_unless_the_policy_says_so() -> None:
    answers = KeptAnswers(KeptPolicy())
    keep(answers, asking(temperature=0))

    assert found(answers, asking(temperature=0)) is None
    assert answers.answer_bytes_max == 0


@pytest.mark.parametrize(
    ("more", "is_kept"),
    [
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": 0.1}, False),
        ({"temperature": False}, False),
        ({"temperature": None}, False),
        ({}, False),
        ({"temperature": 0, "store": True}, False),
        ({"temperature": 0, "store": False}, True),
        ({"temperature": 0, "previous_response_id": "resp_1"}, False),
    ],
)
def test_only_what_is_deterministic_and_has_no_effects_is_kept(
    more: dict[str, Any], *, is_kept: bool
) -> None:
    answers = KeptAnswers(COLD)
    keep(answers, asking(**more))

    assert (found(answers, asking(**more)) is not None) is is_kept


@pytest.mark.requirement("answers.kept-by-policy")
def test_an_answer_is_its_agents_or_its_tenants_and_never_anothers() -> None:
    mine = KeptAnswers(ALWAYS)
    ours = KeptAnswers(replace(ALWAYS, kept_for=KeptFor.TENANT))
    for answers in (mine, ours):
        keep(answers, asking())

    assert found(mine, asking(), chain=replace(ADA, session=SessionId("s2"))) == b"{}"
    assert found(mine, asking(), chain=BOB) is None
    assert found(ours, asking(), chain=BOB) == b"{}"
    assert found(mine, asking(), chain=RIVAL) is None
    assert found(ours, asking(), chain=RIVAL) is None


def test_another_word_another_model_or_another_header_is_another_request() -> None:
    answers = KeptAnswers(ALWAYS)
    keep(answers, asking())

    assert found(answers, asking("hi!")) is None
    assert found(answers, asking(stream=True)) is None
    assert found(answers, asking(), model="other") is None
    assert found(answers, asking(), path="/messages/count_tokens") is None
    assert found(answers, replace(asking(), headers={"anthropic-beta": "x"})) is None
    assert found(answers, replace(asking(), model="low")) == b"{}"


def test_the_order_of_a_requests_members_means_nothing() -> None:
    answers = KeptAnswers(ALWAYS)
    keep(answers, asking(top_p=1, seed=7))

    assert found(answers, asking(seed=7, top_p=1)) == b"{}"


def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    answers = KeptAnswers(replace(ALWAYS, ttl_ms=100))
    keep(answers, asking(), now_ms=1_000)

    assert found(answers, asking(), now_ms=1_099) == b"{}"
    assert found(answers, asking(), now_ms=1_100) is None
    # A clock that was set back makes nothing younger.
    keep(answers, asking(), now_ms=1_000)
    assert found(answers, asking(), now_ms=999) is None


def test_the_answer_that_was_used_longest_ago_goes_first() -> None:
    answers = KeptAnswers(replace(ALWAYS, entries_max=2))
    keep(answers, asking("one"))
    keep(answers, asking("two"))
    assert found(answers, asking("one"))
    keep(answers, asking("three"))

    assert found(answers, asking("two")) is None
    assert found(answers, asking("one"))
    assert found(answers, asking("three"))


def test_a_request_says_that_nothing_is_kept_or_that_it_is_asked_anew() -> None:
    answers = KeptAnswers(ALWAYS)
    keep(answers, asking(), b"old")

    assert found(answers, asking(), cache_control="no-store") is None
    assert found(answers, asking(), cache_control="max-age=0, No-Cache") is None
    keep(answers, asking(), b"newer", cache_control="no-store")
    assert found(answers, asking()) == b"old"
    keep(answers, asking(), b"new", cache_control="no-cache")
    assert found(answers, asking()) == b"new"


def test_an_answer_that_a_budget_may_have_cut_is_not_kept() -> None:
    answers = KeptAnswers(ALWAYS)
    keep(answers, asking(), held=100)

    assert found(answers, asking()) is None


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 4_000), max_size=40))
def test_what_is_kept_is_never_more_than_its_memory(sizes: list[int]) -> None:
    policy = replace(ALWAYS, bytes_max=10_000, answer_bytes_max=3_000, entries_max=8)
    answers = KeptAnswers(policy)
    for number, size in enumerate(sizes):
        keep(answers, asking(str(number)), b"x" * size)

        kept = [found(answers, asking(str(one))) for one in range(number + 1)]
        held = [content for content in kept if content is not None]
        assert len(held) <= policy.entries_max
        assert sum(len(content) for content in held) <= policy.bytes_max
        assert all(len(content) <= policy.answer_bytes_max for content in held)


@pytest.mark.requirement("answers.kept-by-policy")
async def test_a_repeated_request_is_a_recorded_call_that_costs_nothing() -> None:
    async with open_house(answers=ALWAYS) as house:
        house.budget(cost_microusd=1_000_000)
        first = await house.chat("work")
        spent = await house.ledger.spent()
        again = await house.chat("work")

        assert await house.ledger.spent() == spent
    assert len(house.requests) == 1
    theirs, ours = first.json(), again.json()
    member = ours.pop("flyball")
    assert {**theirs, "flyball": None} == {**ours, "flyball": None}
    assert member["cached"] is True
    assert again.headers["flyball-cached"] == "true"
    assert "cached" not in theirs["flyball"]
    assert member["usage"]["cost_microusd"] == 0
    record = house.record
    assert (record.status, record.usage_source) == (CallStatus.OK, None)
    assert record.call_id == member["call_id"] != theirs["flyball"]["call_id"]
    assert theirs["flyball"]["call_id"] in record.detail


async def test_a_kept_answer_is_had_where_the_money_is_spent() -> None:
    async with open_house(answers=ALWAYS) as house:
        house.budget(cost_microusd=600)
        await house.chat("work")
        house.budget(cost_microusd=20)
        other = await house.chat("something else")
        again = await house.chat("work")

    assert other.status_code == 429
    assert again.status_code == 200
    assert again.json()["flyball"]["cached"] is True


async def test_a_kept_answer_is_a_turn_like_any_other() -> None:
    terms = TurnPolicy(fallback=TurnTerms(mode=TurnMode.FIXED, turns=2))
    async with open_house(answers=ALWAYS, turns=terms) as house:
        house.budget(cost_microusd=1_000_000)
        statuses = [(await house.chat("work")).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
    assert len(house.requests) == 1


async def test_a_failure_is_not_kept() -> None:
    async with open_house(answers=ALWAYS) as house:
        house.budget(cost_microusd=1_000_000)
        house.provider_answers(500, json={"error": {"message": "no"}})
        await house.chat("work")
        house.provider_answers(json={"error": {"message": "no"}})
        await house.chat("work")
        house.provider_answers(json=completion())
        good = await house.chat("work")

    assert len(house.requests) == 3
    assert "cached" not in good.json()["flyball"]


async def test_cache_control_of_a_request_is_honoured() -> None:
    async with open_house(answers=ALWAYS) as house:
        house.budget(cost_microusd=1_000_000)
        await house.chat("work")
        anew = await house.chat("work", headers={"Cache-Control": "no-cache"})
        unstored = await house.chat("other", headers={"Cache-Control": "no-store"})
        again = await house.chat("other")

    assert len(house.requests) == 4
    for answer in (anew, unstored, again):
        assert "cached" not in answer.json()["flyball"]


async def test_a_stream_is_kept_as_its_bytes_and_streamed_again() -> None:
    with anyio.fail_after(60):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, answers=ALWAYS) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            upstream.plays(streaming(TEXT.events))
            first = await house.client.post(CHAT, json=TEXT.request)
            spent = await house.ledger.spent()
            again = await house.client.post(CHAT, json=TEXT.request)

            assert await house.ledger.spent() == spent
    assert first.content == again.content == TEXT.content
    assert again.headers["content-type"] == first.headers["content-type"]
    assert "flyball-cached" not in first.headers
    assert again.headers["flyball-cached"] == "true"
    assert house.record.usage is not None
    assert house.record.usage.measured.of(Unit.OUTPUT_TOKENS) == 0


@pytest.mark.parametrize("place", [1, len(TEXT.content) // 2])
async def test_a_stream_that_broke_off_is_not_kept(place: int) -> None:
    with anyio.fail_after(60):
        async with (
            an_upstream() as upstream,
            open_house(base_url=upstream.base_url, answers=ALWAYS) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            upstream.plays(broken_at(TEXT.content, place), streaming(TEXT.events))
            await house.client.post(CHAT, json=TEXT.request)
            second: httpx.Response = await house.client.post(CHAT, json=TEXT.request)

    assert second.content == TEXT.content
    assert "flyball-cached" not in second.headers


async def test_a_stream_that_is_too_long_is_relayed_and_not_kept() -> None:
    with anyio.fail_after(60):
        async with (
            an_upstream() as upstream,
            open_house(
                base_url=upstream.base_url, answers=replace(ALWAYS, answer_bytes_max=100)
            ) as house,
        ):
            house.budget(cost_microusd=1_000_000)
            upstream.plays(streaming(TEXT.events), streaming(TEXT.events))
            answers = [await house.client.post(CHAT, json=TEXT.request) for _ in range(2)]

    assert [answer.content for answer in answers] == [TEXT.content] * 2
    assert "flyball-cached" not in answers[1].headers
