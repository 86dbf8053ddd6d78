"""The governor's own tools: looking at a budget must be possible when it is spent."""

from dataclasses import replace

import pytest

from governor.amounts import Unit
from governor.budget import Budget, BudgetKind
from governor.call import CallStatus, ToolCall
from governor.ids import CallId, ToolName
from governor.policy import STATUS_TOOL, Match, ToolRule
from governor.turn_policy import TurnMode, TurnPolicy, TurnTerms
from tests.governor.makers import budget
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import CHAIN, ENTRY, RULE, House, a_call
from tests.tool_gateway.spawn_makers import NoSubSessions
from tool_gateway.builtin import ENTRIES, GOVERNOR_EXTEND, Builtins
from tool_gateway.discovery.answers import Answers
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.results import DENIAL_META, LOOP_META, Outcome, ToolResult, text_result
from tool_gateway.spawning import CLOSE, Spawning

pytestmark = pytest.mark.anyio


def house_with(
    *rules: ToolRule, turns: TurnPolicy | None = None, more: tuple[Budget, ...] = (), **limits: int
) -> House:
    priced = replace(RULE, match=Match(), cost_microusd=5)
    house = House(budget("calls", **limits), *more, rule=priced, turns=turns)
    house.policy = replace(house.policy, rules=(*rules, priced))
    return house


async def ask(house: House, tool: str = STATUS_TOOL, **arguments: object) -> ToolResult:
    backend = Builtins(
        memories=MemoryTools(archive=house.archive),
        books=house.books,
        turns=house.turns,
        policy=lambda: house.policy,
        spawning=Spawning(NoSubSessions()),
        answers=Answers(a_finder()),
    )
    call = ToolCall(
        call_id=CallId(house.clock.fresh("call")),
        tool=ToolName(tool),
        arguments=arguments,
        chain=CHAIN,
        turn=None,
    )
    entry = next(entry for entry in ENTRIES if entry.exposed == tool)
    return await house.pipeline.run(call, session_name="one", entry=entry, backend=backend)


def why(result: ToolResult) -> object:
    denial = result.meta.get(DENIAL_META)
    return denial["reason"] if isinstance(denial, dict) else None


@pytest.mark.requirement("governor-tools.are-free")
async def test_looking_at_a_budget_uses_none_of_it_and_is_recorded() -> None:
    house = house_with(tool_calls=1, cost_microusd=5)

    looked = [await ask(house) for _ in range(3)]
    ran = await house.run()
    after = await ask(house)
    denied = await house.run()

    assert [why(result) for result in (*looked, ran, after, denied)] == [
        *[None] * 5,
        "budget_exhausted",
    ]
    assert {record.name for record in house.ledger.records} == {STATUS_TOOL, "files__read"}
    assert "0 of 1 tool calls left" in str(after.content[1]["text"])


@pytest.mark.requirement("governor-tools.are-free")
async def test_no_kind_of_budget_stands_before_the_question_what_is_left() -> None:
    slots = replace(budget("slots", tool_calls=1), kind=BudgetKind.CONCURRENCY)
    house = house_with(more=(slots, budget("turns", turns=1), budget("cpu", cpu_ms=1)), wall_ms=1)
    asked: list[ToolResult] = []

    async def ask_meanwhile() -> Outcome:
        asked.append(await ask(house))
        return Outcome(result=text_result("done"))

    house.backend.behave = ask_meanwhile
    await house.run(a_call(house.clock.fresh("call"), turn="t1"))
    asked.append(await ask(house))

    assert [why(result) for result in asked] == [None] * len(asked)


@pytest.mark.requirement("governor-tools.are-free")
async def test_a_frozen_session_may_look_and_nothing_else() -> None:
    house = house_with(tool_calls=5)
    house.ledger.frozen.add(CHAIN.session)

    looked, extended = await ask(house), await ask(house, GOVERNOR_EXTEND, reason="x")
    ran = await house.run()

    assert not looked.is_error
    assert house.ledger.records[0].status is CallStatus.OK
    assert why(extended) == why(ran) == "session_frozen"


@pytest.mark.requirement("governor-tools.are-free")
async def test_what_is_left_of_the_turns_is_told_and_asking_takes_none() -> None:
    terms = TurnTerms(mode=TurnMode.FIXED, turns=2)
    house = house_with(tool_calls=9, turns=TurnPolicy(fallback=terms))
    await house.run(a_call(house.clock.fresh("call"), turn="t1"))

    asked = [await ask(house), await ask(house, GOVERNOR_EXTEND, reason="x"), await ask(house)]

    assert [why(result) for result in asked] == [None, None, None]
    shown = asked[-1].structured
    assert isinstance(shown, dict)
    assert (shown["turns"]["used"], shown["turns"]["remaining"]) == (1, 1)
    assert "Turns: 1 of 2 left." in str(asked[-1].content[1]["text"])


@pytest.mark.requirement("governor-tools.are-free")
async def test_only_a_rule_that_names_it_prices_an_own_tool() -> None:
    named = replace(RULE, name="own", match=Match(tool="governor_close"), cost_microusd=3)
    house = house_with(named, tool_calls=1, cost_microusd=9)

    free = await ask(house, GOVERNOR_EXTEND, reason="x")
    priced = [await ask(house, CLOSE, name="helper") for _ in range(2)]

    assert why(free) is None
    assert [why(result) for result in priced] == [None, "budget_exhausted"]


@pytest.mark.requirement("governor-tools.are-free")
async def test_asking_again_is_no_loop() -> None:
    house = house_with(tool_calls=9)

    asked = [await ask(house) for _ in range(15)]
    asked += [await ask(house, GOVERNOR_EXTEND, reason="x") for _ in range(15)]

    assert all(why(result) is None for result in asked)
    assert not any(LOOP_META in result.meta for result in asked)


@pytest.mark.requirement("governor-tools.are-free")
@pytest.mark.parametrize("name", [STATUS_TOOL, GOVERNOR_EXTEND, CLOSE])
async def test_an_upstreams_tool_by_the_name_of_an_own_one_is_charged_like_any_other(
    name: str,
) -> None:
    house = house_with(tool_calls=1, cost_microusd=9)
    house.entry = replace(ENTRY, exposed=ToolName(name))

    results = [await house.run(replace(a_call(f"c{n}"), tool=ToolName(name))) for n in range(2)]

    assert [why(result) for result in results] == [None, "budget_exhausted"]
    assert house.ledger.remaining(Unit.COST_MICROUSD) == 9 - 5
    assert len(house.backend.ran) == 1


@pytest.mark.requirement("governor-tools.are-free")
async def test_an_upstreams_tool_by_the_name_of_an_own_one_stands_still_in_a_frozen_session() -> (
    None
):
    house = house_with(tool_calls=9)
    house.entry = replace(ENTRY, exposed=STATUS_TOOL)
    house.ledger.frozen.add(CHAIN.session)

    result = await house.run(replace(a_call(), tool=STATUS_TOOL))

    assert why(result) == "session_frozen"
    assert house.backend.ran == []


@pytest.mark.requirement("turns.limit-denies")
async def test_an_upstreams_tool_by_the_name_of_an_own_one_rides_on_no_earlier_turn() -> None:
    one_turn = TurnPolicy(fallback=TurnTerms(mode=TurnMode.FIXED, turns=1))
    named = replace(RULE, name="own", match=Match(tool="governor_*"), cost_microusd=3)
    house = house_with(named, turns=one_turn, tool_calls=9)
    house.entry = replace(ENTRY, exposed=STATUS_TOOL)

    results = [
        await house.run(replace(a_call(f"c{turn}", turn=turn), tool=STATUS_TOOL))
        for turn in ("one", "two")
    ]

    assert [why(result) for result in results] == [None, "turn_limit"]


async def test_a_budget_that_no_call_of_a_tool_fits_in_is_not_praised() -> None:
    limits = replace(RULE.limits, wall_ms=60_000, cpu_ms=5_000)
    shell = replace(RULE, match=Match(tool="shell_run"), limits=limits)
    house = house_with(shell, energy_mj=2_000)
    house.policy = replace(house.policy, milliwatts_per_core=15_300)

    said = str((await ask(house)).content[1]["text"])

    assert "There is room" not in said
    assert "HIGH." not in said
    assert "- shell_run: by its rule a call holds 76.5k energy_mj" in said


async def test_a_budget_that_calls_fit_in_is_praised_as_ever() -> None:
    limits = replace(RULE.limits, wall_ms=100, cpu_ms=100)
    house = house_with(replace(RULE, match=Match(tool="shell_run"), limits=limits), energy_mj=2_000)
    house.policy = replace(house.policy, milliwatts_per_core=15_300)

    said = str((await ask(house)).content[1]["text"])

    assert "Budget HIGH. There is room" in said
