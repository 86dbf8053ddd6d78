from dataclasses import replace

import anyio
import pytest

from governor.call import CallStatus
from governor.ids import CallId, PrincipalId, SessionId, TenantId, TierName
from governor.pricing import ModelPrice
from governor.scope import ScopeChain
from governor.tiers import ModelTier, PromptFacts, TierChoice
from runtime.model_gateway.ports import CallEnd, Candidate, RouteAsk, Routed, Wishes
from runtime.router.ascending import AscendingRouter
from runtime.router.written import options_of
from tests.runtime.router import makers
from tests.runtime.router.rounds_bench import tier

pytestmark = pytest.mark.anyio

LOW, HIGH = tier("low"), tier("high", usd_per_mtok=5)
VALUE = 1_000_000


def asking(
    number: int, session: str = "one", *, high: ModelTier = HIGH, agent: str = "ada"
) -> RouteAsk:
    chain = ScopeChain(
        tenant=TenantId("acme"), agent=PrincipalId(agent), session=SessionId(session)
    )
    return RouteAsk(
        call_id=CallId(f"call_{session}_{number}"),
        chain=chain,
        session_name=session,
        turn=None,
        now_ms=0,
        task_class=None,
        text="",
        opening="",
        facts=PromptFacts(text="", chars=0, has_tools=True),
        messages_count=1,
        tools_count=1,
        images_count=0,
        candidates=tuple(
            Candidate(tier=one, input_tokens_max=1, output_tokens_max=1, cost_max_microusd=1)
            for one in (LOW, high)
        ),
        purse=None,
        wishes=Wishes(),
        usual=TierChoice(tier=LOW, why="default tier"),
    )


def ended(cost: int = 1_000) -> CallEnd:
    return CallEnd(status=CallStatus.OK, usage=None, cost_microusd=cost, wall_ms=1, ended_at_ms=1)


async def run_of(
    router: AscendingRouter, calls: int, session: str = "one", *, agent: str = "ada"
) -> list[Routed | None]:
    found = []
    for number in range(calls):
        ask = asking(number, session, agent=agent)
        found.append(await router.route(ask))
        await router.ended(ask.call_id, ended())
    return found


async def called(router: AscendingRouter, ask: RouteAsk) -> Routed | None:
    routed = await router.route(ask)
    await router.ended(ask.call_id, ended())
    return routed


async def accustomed(router: AscendingRouter) -> None:
    """Let the router see that runs usually are short and end well."""
    for number in range(10):
        await run_of(router, 5, f"usual{number}")
        router.task_ended(CallId(f"call_usual{number}_0"), 1.0)


async def test_a_session_with_loops_and_errors_moves_up_and_stays_there() -> None:
    signs = (0, 0)
    router = AscendingRouter(None, value_microusd=VALUE, signs=lambda _: signs)
    with anyio.fail_after(60):
        await accustomed(router)
        before = await run_of(router, 5)
        signs = (20, 4)
        after = await run_of(router, 3)
        signs = (0, 0)
        later = await run_of(router, 2)

    assert before == [None] * 5
    for routed in [*after, *later]:
        assert routed is not None
        assert routed.tier == "high"
        assert "moved up" in routed.why


async def test_a_usual_session_stays() -> None:
    router = AscendingRouter(None, value_microusd=VALUE)
    with anyio.fail_after(60):
        await accustomed(router)

        assert await run_of(router, 8) == [None] * 8


async def test_a_prompt_that_is_cached_holds_a_session_where_it_is() -> None:
    cached = ModelPrice(
        input_microusd_per_mtok=5_000_000,
        output_microusd_per_mtok=20_000_000,
        cached_input_microusd_per_mtok=500_000,
    )
    router = AscendingRouter(
        None,
        value_microusd=VALUE,
        signs=lambda _: (20, 4),
        warm_tokens=lambda _, __: 1_000_000,
    )
    with anyio.fail_after(60):
        await accustomed(router)
        for number in range(8):
            ask = asking(number, high=replace(HIGH, price=cached))
            assert await router.route(ask) is None
            await router.ended(ask.call_id, ended())


async def test_what_another_router_chooses_stands_for_who_has_not_moved() -> None:
    class Always:
        ends = 0

        async def route(self, ask: RouteAsk) -> Routed | None:
            return Routed(tier=TierName("high"), why="always")

        async def ended(self, call_id: CallId, end: CallEnd) -> None:
            self.ends += 1

    always = Always()
    router = AscendingRouter(always, value_microusd=VALUE, signs=lambda _: (50, 9))
    with anyio.fail_after(60):
        found = await run_of(router, 6)

    assert [one.why for one in found if one is not None] == ["always"] * 6
    assert always.ends == 6


async def test_the_log_says_of_a_session_that_moved_up_which_tier_served_it() -> None:
    signs = (0, 0)
    made = makers.bench(
        makers.KnownModel({"low": 0.9, "high": 0.9}),
        terms=replace(makers.TERMS, explore_share=0.0),
    )
    router = AscendingRouter(made.router, value_microusd=100 * VALUE, signs=lambda _: signs)
    with anyio.fail_after(60):
        for number in range(10):
            for at in range(5):
                await called(router, makers.ask(10 * number + at, session=f"usual{number}"))
            router.task_ended(CallId(f"call_{10 * number}"), 1.0)
        for at in range(5):
            await called(router, makers.ask(900 + at, session="one"))
        signs = (30, 6)
        routed = await called(router, makers.ask(999, session="one"))
        kept = {one.call_id: one for one in await made.choices()}

    assert routed is not None
    assert routed.tier == "high"
    assert "moved up" in routed.why
    assert kept[CallId("call_904")].tier == "low"
    moved = kept[CallId("call_999")]
    assert (moved.tier, moved.propensity) == ("high", 1.0)
    assert list(options_of(moved.options)) == ["high"]
    # Its place is the one among all tiers.
    assert made.sessions.of(SessionId("one"), None).last_tier_rank == 1


async def test_after_its_task_a_session_begins_where_it_began() -> None:
    signs = (20, 4)
    router = AscendingRouter(None, value_microusd=VALUE, signs=lambda _: signs)
    with anyio.fail_after(60):
        await accustomed(router)
        moved = await run_of(router, 6)
        router.task_ended(CallId("call_one_0"), 1.0)
        again = await run_of(router, 3)

    assert moved[-1] is not None
    assert again == [None] * 3
    assert router.failing(SessionId("one")) < 0.9


async def test_an_end_of_nobodys_call_is_not_learned_of() -> None:
    router = AscendingRouter(None, value_microusd=VALUE)

    await router.ended(CallId("call_of_nobody"), ended())
    router.task_ended(CallId("call_of_nobody"), 0.0)

    assert router.failing(SessionId("nobody")) == pytest.approx(0.4, abs=0.05)


@pytest.mark.requirement("router.poisoning-bounded")
async def test_a_task_ends_once_however_often_and_of_whichever_call_that_is_said() -> None:
    once, often = (AscendingRouter(None, value_microusd=VALUE) for _ in range(2))
    with anyio.fail_after(60):
        for router, calls in ((once, (0,)), (often, (0, 0, 3, 1, 4, 0))):
            for number in range(20):
                await run_of(router, 5, f"usual{number}")
                for call in calls:
                    router.task_ended(CallId(f"call_usual{number}_{call}"), float(number % 2))
            await run_of(router, 9)

    assert often.failing(SessionId("one")) == once.failing(SessionId("one"))


@pytest.mark.requirement("router.poisoning-bounded")
async def test_what_one_agent_says_of_its_tasks_moves_nobody_elses_sessions() -> None:
    router = AscendingRouter(None, value_microusd=VALUE)
    with anyio.fail_after(60):
        await accustomed(router)
        await run_of(router, 8)
        before = router.failing(SessionId("one"))
        for number in range(300):
            await run_of(router, 1, f"m{number}", agent="mallory")
            router.task_ended(CallId(f"call_m{number}_0"), 0.0)

        assert router.failing(SessionId("one")) == before
        assert await run_of(router, 8, "fresh") == [None] * 8


async def test_who_is_believed_less_teaches_less() -> None:
    routers = [AscendingRouter(None, value_microusd=VALUE) for _ in range(2)]
    with anyio.fail_after(60):
        for router, counts in zip(routers, (1.0, 0.25), strict=True):
            for number in range(20):
                await run_of(router, 5, f"s{number}")
                router.task_ended(CallId(f"call_s{number}_0"), 0.0, counts=counts)
            await run_of(router, 5)

    whole, quarter = (router.failing(SessionId("one")) for router in routers)
    assert 0.4 < quarter < whole
