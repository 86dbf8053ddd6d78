"""Which tier the router chooses, what it explores, what it keeps, and what it never does."""

from dataclasses import replace

import numpy as np
import pytest

from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.ids import CallId, TierName
from governor.learning.bandit import Lesson
from governor.learning.choice import Objective
from governor.learning.likeness import Rows
from governor.pricing import ModelPrice
from governor.tiers import TierChoice, TierRule
from governor.usage import Usage
from memory_store.router_log import RouterEnd
from runtime.model_gateway.ports import CallEnd, Purse, Routed
from runtime.router.predictor import Prediction
from runtime.router.terms import RouterMode
from runtime.router.written import options_of, unpacked
from tests.runtime.router.makers import (
    READER,
    TERMS,
    Bench,
    KnownModel,
    ask,
    bench,
    candidates,
)

pytestmark = pytest.mark.anyio

STRONG = KnownModel({"low": 0.5, "high": 0.9})
ALIKE = KnownModel({"low": 0.7, "high": 0.705})
NO_EXPLORING = replace(TERMS, explore_share=0.0)
TO_HIGH = (TierRule(tier=TierName("high"), keywords=("prove",)),)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def routed(made: Bench, number: int = 0, **more: object) -> Routed:
    found = await made.router.route(ask(number, **more))  # type: ignore[arg-type]
    assert found is not None
    return found


async def test_the_better_tier_is_taken_where_it_is_worth_its_price() -> None:
    strong = await routed(bench(STRONG, terms=NO_EXPLORING))
    alike = await routed(bench(ALIKE, terms=NO_EXPLORING))

    assert (strong.tier, strong.propensity, strong.why) == ("high", 1.0, "learned (value)")
    assert alike.tier == "low"


async def test_a_shadow_does_not_change_what_money_counts() -> None:
    terms = replace(TERMS, objective=Objective.RATE, rate_microusd_per_hour=1.0, explore_share=0.0)
    prices = []
    for shadow in (None, STRONG):
        made = bench(STRONG, terms=terms, shadow=shadow)
        made.router._spending.note(10_000_000, at_ms=1_000)
        for number in range(50):
            await made.router.route(ask(number))
        prices.append([one.price for one in await made.choices()])

    assert prices[0] == prices[1]


async def test_money_counts_more_as_a_budget_burns() -> None:
    burnt = Purse(
        limit_microusd=1_000_000,
        used_microusd=970_000,
        reserved_microusd=0,
        window_ms=None,
        window_left_ms=None,
    )
    model = KnownModel({"low": 0.5, "high": 0.6})

    flush = await routed(bench(model, terms=NO_EXPLORING))
    short = await routed(bench(model, terms=NO_EXPLORING), purse=burnt)

    assert (flush.tier, short.tier) == ("high", "low")


@pytest.mark.requirement("model.session-stays-where-it-is-cached")
async def test_a_prompt_that_is_cached_at_a_tier_is_worth_its_rebate() -> None:
    low, high = candidates()
    # A token of input costs a micro-dollar there, and nothing where it is cached.
    rated = replace(
        high.tier,
        price=ModelPrice(
            input_microusd_per_mtok=1_000_000,
            output_microusd_per_mtok=1_000_000,
            cached_input_microusd_per_mtok=0,
        ),
    )
    warm = replace(high, tier=rated, warm_tokens=10**9)

    cold = await routed(bench(ALIKE, terms=NO_EXPLORING), among=(low, replace(high, tier=rated)))
    kept = await routed(bench(ALIKE, terms=NO_EXPLORING), among=(low, warm))

    assert (cold.tier, kept.tier) == ("low", "high")


@pytest.mark.requirement("model.session-stays-where-it-is-cached")
async def test_by_the_rules_a_session_stays_where_the_gateway_says_that_it_does() -> None:
    made = bench(terms=replace(NO_EXPLORING, mode=RouterMode.RULES))
    low, high = candidates()
    usual = TierChoice(tier=high.tier, why="stays where its prompt is warm")

    stayed = await made.router.route(replace(ask(), candidates=(low, high), usual=usual))
    gone = await made.router.route(replace(ask(1), candidates=(low,), usual=usual))

    assert stayed == Routed(tier=TierName("high"), why="stays where its prompt is warm")
    assert gone == Routed(tier=TierName("low"), why="default tier")


async def test_a_wished_quality_is_reached_by_the_cheapest_that_does() -> None:
    made = bench(STRONG, terms=NO_EXPLORING)

    low, high = await routed(made, target=0.4), await routed(made, target=0.8)

    assert (low.tier, low.why) == ("low", "learned (target)")
    assert high.tier == "high"


async def test_a_rate_of_spending_is_kept_to() -> None:
    rate = replace(NO_EXPLORING, objective=Objective.RATE, rate_microusd_per_hour=20_000.0)
    made = bench(STRONG, terms=rate)
    spent = 0.0
    cost = {"low": 100, "high": 1_000}
    for number in range(600):  # one each minute
        at_ms = 60_000 * number
        tier = (await routed(made, number, now_ms=at_ms)).tier
        spent += cost[tier] if number >= 120 else 0
        end = CallEnd(
            status=CallStatus.OK, usage=None, cost_microusd=cost[tier], wall_ms=1, ended_at_ms=at_ms
        )
        await made.router.ended(CallId(f"call_{number}"), end)

    # Always the strong tier would be 60,000 an hour, always the weak one 6,000.
    assert spent / 8 == pytest.approx(20_000, rel=0.25)


@pytest.mark.parametrize("quiet_calls", [0, 400])
async def test_a_quiet_hour_is_not_made_up_for_at_once(quiet_calls: int) -> None:
    hourly = 2_000_000.0
    rate = replace(
        NO_EXPLORING,
        objective=Objective.RATE,
        rate_microusd_per_hour=hourly,
        answer_microusd=10_000.0,
    )
    made, now_ms, spent = bench(STRONG, terms=rate), 0, 0
    for number in range(quiet_calls):
        now_ms += 9_000
        await routed(made, number, now_ms=now_ms)
        made.router._spending.note(1, at_ms=now_ms)
    for number in range(1_200):  # five each second, for four minutes
        now_ms += 200
        tier = (await routed(made, 1_000 + number, now_ms=now_ms)).tier
        cost = {"low": 100, "high": 1_000}[tier]
        made.router._spending.note(cost, at_ms=now_ms)
        spent += cost

    # Spending is averaged over ten minutes more than those four, and steered with some delay.
    assert spent < 1.3 * hourly / 60 * 14


async def test_what_the_bandit_learned_corrects_the_model() -> None:
    made = bench(STRONG, terms=NO_EXPLORING)
    learned = made.now.learned
    assert learned is not None
    for _ in range(100):
        context = np.array([1.0, 0.0, 0.0])
        learned.bandit.learn(Lesson(arm="high", context=context, reward=-0.6, weight=1.0, period=0))

    assert (await routed(made, text="Say it.")).tier == "low"


async def test_a_tier_that_the_model_does_not_know_can_be_chosen() -> None:
    costs = {"low": 100.0, "high": 1_000.0, "new": 10.0}
    made = bench(STRONG, terms=replace(TERMS, explore_share=0.3), seed=3)

    tiers = {(await routed(made, n, among=candidates(costs))).tier for n in range(200)}

    assert "new" in tiers


@pytest.mark.requirement("router.safe-default")
async def test_without_a_model_the_tier_rules_decide() -> None:
    made = bench(rules=TO_HIGH, terms=NO_EXPLORING)

    plain, proof = await routed(made, text="Hello"), await routed(made, 1, text="Prove it")

    assert (plain.tier, plain.why) == ("low", "default tier")
    assert (proof.tier, proof.why) == ("high", "rule 1")
    assert [one.policy for one in await made.choices()] == ["cold", "cold"]


async def test_rules_alone_are_kept_and_never_explored_and_off_keeps_nothing() -> None:
    rules = bench(STRONG, rules=TO_HIGH, terms=replace(TERMS, mode=RouterMode.RULES))
    for number in range(100):
        assert (await routed(rules, number)).tier == "low"
    off = bench(STRONG, terms=replace(TERMS, mode=RouterMode.OFF))

    nothing = await off.router.route(ask())

    kept = await rules.choices()
    assert {(one.policy, one.propensity, one.explored) for one in kept} == {("rules", 1.0, False)}
    assert nothing is None
    assert await off.choices() == []


@pytest.mark.requirement("router.safe-default")
async def test_a_model_that_fails_leaves_it_to_the_tier_rules() -> None:
    class Broken(KnownModel):
        def forecast(self, features: Rows) -> Prediction:
            raise ValueError("nobody foresaw this")

    assert await bench(Broken({"low": 1.0, "high": 1.0})).router.route(ask()) is None


@pytest.mark.requirement("router.explores-within-bounds")
@pytest.mark.parametrize("model", [None, STRONG])
async def test_what_is_explored_stays_within_its_share(model: KnownModel | None) -> None:
    made = bench(model, terms=replace(TERMS, explore_share=0.2), seed=11)
    for number in range(2_000):
        await routed(made, number, session=f"ses_{number}")

    explored = [one.explored for one in await made.choices()]

    # Four standard errors either way.
    assert np.mean(explored) == pytest.approx(0.2, abs=4 * (0.2 * 0.8 / 2_000) ** 0.5)


@pytest.mark.requirement("router.explores-within-bounds")
async def test_marked_sessions_are_never_explored_not_even_later() -> None:
    always = replace(TERMS, explore_share=0.5, no_exploration_for=("payer-*",))
    made = bench(STRONG, terms=always)
    await routed(made, 0, session="ses_marked", may_explore=False)
    for number in range(1, 100):
        await routed(made, number, session="ses_marked")
        await routed(made, 1_000 + number, session=f"ses_{number}", agent="payer-7")

    kept = await made.choices()
    assert not any(one.explored for one in kept)
    assert {one.propensity for one in kept} == {1.0}


@pytest.mark.requirement("router.explores-within-bounds")
async def test_nothing_dearer_is_tried_out_with_a_short_purse() -> None:
    purse = Purse(
        limit_microusd=100_000,
        used_microusd=90_000,
        reserved_microusd=0,
        window_ms=None,
        window_left_ms=None,
    )
    made = bench(ALIKE, terms=replace(TERMS, explore_share=0.5))
    for number in range(200):
        await routed(made, number, purse=purse)

    assert {one.tier for one in await made.choices()} == {"low"}


async def test_a_tier_that_the_purse_cannot_hold_is_not_chosen() -> None:
    purse = Purse(
        limit_microusd=1_000_000,
        used_microusd=0,
        reserved_microusd=999_000,
        window_ms=None,
        window_left_ms=None,
    )
    model = KnownModel({"low": 0.0, "high": 1.0})
    cheap = replace(NO_EXPLORING, answer_microusd=1e9)

    assert (await routed(bench(model, terms=cheap), purse=purse)).tier == "low"


@pytest.mark.requirement("router.log-kept")
async def test_every_choice_is_kept_with_what_could_have_been() -> None:
    made = bench(STRONG, terms=TERMS, shadow=ALIKE, seed=2)

    found = await routed(made, 7, text="Why 1?")

    (kept,) = await made.choices()
    options = options_of(kept.options)
    assert (kept.call_id, kept.turn) == ("call_7", "call_7")
    assert (kept.policy, kept.model, kept.tier) == ("learned", "abc", found.tier)
    assert (kept.shadow_model, kept.shadow_tier) == ("def", "low")
    assert kept.price == pytest.approx(1e-5)
    assert sum(one.propensity for one in options.values()) == pytest.approx(1.0, abs=1e-5)
    assert options[kept.tier].propensity == pytest.approx(kept.propensity, abs=1e-5)
    assert options["high"].quality == pytest.approx(0.9)
    state = made.sessions.of(ask().chain.session, None)
    assert unpacked(kept.features) == pytest.approx(
        READER.read("Why 1?", replace(state, turn=1)), abs=0.01
    )


async def test_how_a_call_ended_is_kept_and_known_to_the_next_of_its_session() -> None:
    made = bench(STRONG, terms=NO_EXPLORING)
    await routed(made, 1)
    usage = Usage(measured=Amounts({Unit.OUTPUT_TOKENS: 30, Unit.COST_MICROUSD: 5}))
    end = CallEnd(
        status=CallStatus.UPSTREAM_FAILED,
        usage=usage,
        cost_microusd=5,
        wall_ms=40,
        ended_at_ms=1_040,
    )

    await made.router.ended(CallId("call_1"), end)
    await made.router.ended(CallId("call_unknown"), end)

    await made.recorder.flush()
    assert made.log.ends == [
        RouterEnd(
            call_id=CallId("call_1"),
            status="upstream_failed",
            cost_microusd=5,
            output_tokens=30,
            latency_ms=40,
            ended_at_ms=1_040,
        )
    ]
    state = made.sessions.of(ask().chain.session, None)
    assert (state.turn, state.tokens_so_far) == (2, 30)
    assert (state.last_tier_rank, state.last_tier_failed) == (1, True)
