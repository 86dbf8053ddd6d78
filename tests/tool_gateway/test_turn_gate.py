"""Turn control on the path of a tool call; `tests/scenarios` runs it in a whole sidecar."""

import json
from dataclasses import replace

import anyio
import pytest

from governor.admission import AdmissionRequest
from governor.call import CallStatus, ToolCall
from governor.denial import Denied
from governor.events import Reserved
from governor.ids import CallId, ReservationId, TaskClass, ToolName, TurnId
from governor.target import CallKind, CallTarget
from governor.turn_control import FinishedSession
from governor.turn_policy import AgentClass, TurnMode, TurnPolicy, TurnRule, TurnTerms
from tests.governor.makers import amounts, budget, request
from tests.tool_gateway.finding_makers import a_finder
from tests.tool_gateway.makers import CHAIN, RULE, FakeBackend, House, a_call
from tests.tool_gateway.spawn_makers import NoSubSessions
from tests.tool_gateway.turn_makers import FakeTurnStore
from tool_gateway.builtin import ENTRIES, GOVERNOR_EXTEND, GOVERNOR_STATUS, Builtins
from tool_gateway.catalog import HOUSE, ToolEntry
from tool_gateway.discovery.answers import Answers
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.ports import TurnsKnown
from tool_gateway.results import DENIAL_META, Outcome, ToolResult, text_result
from tool_gateway.spawning import Spawning
from tool_gateway.turn_gate import TURNS_META, Decision

pytestmark = pytest.mark.anyio

DYNAMIC = TurnTerms(mode=TurnMode.DYNAMIC, turns=2, extension=2, extensions_max=2, extended_max=3)


def limited(
    terms: TurnTerms | None = None, *, store: FakeTurnStore | None = None, **fixed: object
) -> House:
    fallback = terms or TurnTerms(mode=TurnMode.FIXED, **fixed)
    return House(turns=TurnPolicy(fallback=fallback), turn_store=store or FakeTurnStore())


async def take(house: House, turn: str | None, **more: object) -> ToolResult:
    return await house.run(replace(a_call(house.clock.fresh("call"), turn=turn), **more))


async def chat(house: House, turn: str) -> Decision:
    """Ask for a model, as its front does that begins a turn with each request."""
    asked = request(amounts(), turn=turn, chain=CHAIN, now_ms=house.clock.now_ms())
    number = house.clock.fresh("chat")
    return await house.turns.admit(
        replace(
            asked,
            call_id=CallId(number),
            reservation_id=ReservationId(number),
            target=CallTarget(kind=CallKind.MODEL, name="gpt"),
        )
    )


def denied_why(result: ToolResult) -> object:
    denial = result.meta.get(DENIAL_META)
    return denial["reason"] if isinstance(denial, dict) else None


def turns_of(result: ToolResult) -> dict[str, object]:
    shown = result.meta[TURNS_META]
    assert isinstance(shown, dict)
    return shown


async def ask_for_more(house: House, turn: str, **arguments: object) -> ToolResult:
    """Call governor_extend through the pipeline, as an agent does."""
    entry = next(entry for entry in ENTRIES if entry.exposed == GOVERNOR_EXTEND)
    call = ToolCall(
        call_id=a_call(house.clock.fresh("call")).call_id,
        tool=GOVERNOR_EXTEND,
        arguments={"reason": "one more file", **arguments},
        chain=CHAIN,
        turn=a_call(turn=turn).turn,
    )
    backend = Builtins(
        memories=MemoryTools(archive=house.archive),
        books=house.books,
        turns=house.turns,
        policy=lambda: house.policy,
        spawning=Spawning(NoSubSessions()),
        answers=Answers(a_finder()),
    )
    return await house.pipeline.run(call, session_name="one", entry=entry, backend=backend)


def answers(house: House, *texts: str) -> None:
    remaining = list(texts)

    async def answer() -> Outcome:
        return Outcome(result=text_result(remaining.pop(0)))

    house.backend.behave = answer


@pytest.mark.requirement("turns.limit-denies")
async def test_the_turn_beyond_the_limit_is_denied_and_nothing_is_held() -> None:
    house = limited(turns=2)

    for turn in ("t1", "t1", "t2"):
        assert denied_why(await take(house, turn)) is None
    beyond = await take(house, "t3")

    assert denied_why(beyond) == "turn_limit"
    assert house.ledger.records[-1].status is CallStatus.DENIED
    assert len(house.backend.ran) == 3


async def test_a_turn_that_has_begun_goes_on_after_the_last_one_is_used() -> None:
    house = limited(turns=2)
    await take(house, "t1")
    await take(house, "t2")

    assert denied_why(await take(house, "t1")) is None
    assert denied_why(await take(house, "t2")) is None


async def test_turns_that_begin_side_by_side_do_not_share_the_last_place() -> None:
    house = limited(turns=1)
    results: list[ToolResult] = []

    async def one(turn: str) -> None:
        results.append(await take(house, turn))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, f"t{number}")

    assert sorted(str(denied_why(result)) for result in results) == ["None"] + ["turn_limit"] * 7


async def test_a_turn_whose_only_call_was_denied_is_not_counted() -> None:
    house = House(
        budget("calls", tool_calls=1),
        turns=TurnPolicy(fallback=TurnTerms(mode=TurnMode.FIXED, turns=2)),
    )
    await take(house, "t1")
    for turn in ("t2", "t3", "t4"):
        assert denied_why(await take(house, turn)) == "budget_exhausted"

    assert house.turns._sessions[CHAIN.session].standing.used == 1


async def test_a_call_without_a_turn_cannot_be_counted_and_is_denied() -> None:
    house = limited(turns=2)

    result = await take(house, None)

    assert denied_why(result) == "turn_unknown"


async def test_a_call_without_a_turn_belongs_to_that_of_the_last_request_for_a_model() -> None:
    house = limited(turns=2)
    assert isinstance(await chat(house, "chat-1"), Reserved)

    first = [await take(house, None), await take(house, None)]
    assert isinstance(await chat(house, "chat-2"), Reserved)
    assert isinstance(await chat(house, "chat-3"), Denied)
    second = await take(house, None)

    assert [denied_why(result) for result in (*first, second)] == [None, None, None]
    assert turns_of(first[1])["used"] == 1
    assert (turns_of(second)["used"], turns_of(second)["remaining"]) == (2, 0)


async def test_a_turn_that_a_tool_call_named_is_not_anybody_elses() -> None:
    house = limited(turns=2)
    await take(house, "t1")

    assert denied_why(await take(house, None)) == "turn_unknown"


async def test_a_session_met_again_knows_the_turn_of_its_last_request_for_a_model() -> None:
    store = FakeTurnStore()
    store.sessions[CHAIN.session] = TurnsKnown(
        task_class=TaskClass("default"),
        mode=TurnMode.FIXED,
        base=2,
        turns=(TurnId("chat-1"),),
        model_turn=TurnId("chat-1"),
    )
    house = limited(turns=2, store=store)

    result = await take(house, None)

    assert (denied_why(result), turns_of(result)["used"]) == (None, 1)


async def test_a_rule_may_count_each_call_as_a_turn() -> None:
    house = House(
        rule=replace(RULE, turn_per_call=True),
        turns=TurnPolicy(fallback=TurnTerms(mode=TurnMode.FIXED, turns=2)),
    )

    whys = [denied_why(await take(house, None)) for _ in range(3)]

    assert whys == [None, None, "turn_limit"]


@pytest.mark.requirement("turns.reminder-is-shown")
async def test_the_model_is_reminded_once_at_each_count() -> None:
    house = limited(turns=4, remind_at=(2,))
    answers(house, "one", "two", "three", "four")

    texts = []
    for turn in ("t1", "t2", "t2", "t3"):
        wire = (await take(house, turn)).to_wire()
        assert isinstance(wire["content"], list)
        texts.append([block["text"] for block in wire["content"][1:]])

    assert texts == [
        [],
        ["2 turns remain after this one, of 4; finish with what you have."],
        [],
        [],
    ]


async def test_reminders_can_be_switched_off_and_the_figures_stay() -> None:
    house = limited(turns=2, remind_at=(1,), note_results=False)

    result = await take(house, "t1")

    assert result.notes == ()
    assert turns_of(result) == {
        "mode": "fixed",
        "task_class": "default",
        "limit": 2,
        "used": 1,
        "remaining": 1,
        "extended": 0,
        "extensions": 0,
    }


async def test_a_session_without_a_limit_is_shown_nothing_of_turns() -> None:
    house = House()

    assert TURNS_META not in (await take(house, "t1")).meta


async def test_asking_with_progress_extends_and_without_does_not() -> None:
    store = FakeTurnStore()
    house = limited(DYNAMIC, store=store)
    answers(house, "one", "two", "two", "two")
    await take(house, "t1")
    await take(house, "t2")
    assert denied_why(await take(house, "t3")) == "turn_limit"

    first = await ask_for_more(house, "t3")
    await take(house, "t3")
    await take(house, "t4")
    second = await ask_for_more(house, "t5")

    assert first.structured == {"granted": True, "given": 2, "turns": {**turns_of(first)}}
    assert isinstance(second.structured, dict)
    assert (second.structured["granted"], second.structured["reason"]) == (False, "no_progress")
    assert store.reasons == ["one more file"]
    assert denied_why(await take(house, "t5")) == "turn_limit"


async def test_questions_to_the_governor_open_no_turn_through_which_others_slip() -> None:
    house = limited(turns=1)
    await take(house, "t1")
    status = ToolEntry(
        exposed=GOVERNOR_STATUS,
        original=GOVERNOR_STATUS,
        backend=HOUSE,
        definition={},
    )
    ask = replace(a_call(house.clock.fresh("call"), turn="t2"), tool=ToolName(GOVERNOR_STATUS))

    admitted: list[object] = []
    admit = house.ledger.admit

    async def noted(request: AdmissionRequest) -> object:
        admitted.append(request.turn)
        return await admit(request)

    house.ledger.admit = noted
    inside = FakeBackend(name=HOUSE)
    asked = await house.pipeline.run(ask, session_name="one", entry=status, backend=inside)
    then = await take(house, "t2")

    assert denied_why(asked) is None
    assert denied_why(then) == "turn_limit"
    # In the ledger it is part of no turn: what is not there cannot come back at a restart.
    assert admitted == [None]


async def test_an_automatic_extension_needs_no_question() -> None:
    store = FakeTurnStore()
    house = limited(replace(DYNAMIC, automatic=True), store=store)
    answers(house, *"abcdefgh")

    whys = [denied_why(await take(house, f"t{number}")) for number in range(6)]

    assert whys == [None] * 5 + ["turn_limit"]
    assert len(store.reasons) == 2


async def test_an_extension_stays_within_what_the_budgets_allow() -> None:
    house = limited(DYNAMIC)
    answers(house, "one", "two")

    async def standing(*_: object, **__: object) -> tuple[dict[str, object], ...]:
        return ({"unit": "turns", "remaining": 1}, {"unit": "tool_calls", "remaining": 0})

    house.ledger.standing = standing
    await take(house, "t1")
    await take(house, "t2")

    granted = await ask_for_more(house, "t2", turns=2)

    assert isinstance(granted.structured, dict)
    assert granted.structured["given"] == 1


async def test_no_turn_is_given_while_nobody_can_say_what_the_budgets_allow() -> None:
    house = limited(DYNAMIC)
    answers(house, "one", "two")
    await take(house, "t1")
    await take(house, "t2")

    async def no_answer(*_: object, **__: object) -> tuple[dict[str, object], ...]:
        raise LedgerUnavailableError

    house.ledger.standing = no_answer

    refused = await ask_for_more(house, "t2")

    assert isinstance(refused.structured, dict)
    assert refused.structured["reason"] == "budget"


async def test_what_an_administrator_gives_is_in_force_at_the_next_turn() -> None:
    store = FakeTurnStore()
    house = limited(turns=1, store=store)
    await take(house, "t1")
    assert denied_why(await take(house, "t2")) == "turn_limit"

    store.give(CHAIN.session, 1)
    whys = [denied_why(await take(house, turn)) for turn in ("t2", "t3")]

    assert whys == [None, "turn_limit"]


async def test_a_session_that_is_cut_is_noted_once() -> None:
    store = FakeTurnStore()
    house = limited(turns=1, store=store)

    for turn in ("t1", "t2", "t3"):
        await take(house, turn)

    assert store.cut == [CHAIN.session]


async def test_where_turns_are_limited_a_store_that_fails_denies() -> None:
    store = FakeTurnStore(is_down=True)
    house = limited(turns=5, store=store)

    assert denied_why(await take(house, "t1")) == "ledger_unavailable"
    store.is_down = False
    assert denied_why(await take(house, "t1")) is None


async def test_the_limit_is_learned_from_the_history_of_the_class() -> None:
    past = tuple(FinishedSession(turns=count) for count in (1, 2, 3, 9))
    store = FakeTurnStore(past=past)
    house = limited(
        TurnTerms(mode=TurnMode.PERCENTILE, turns=50, history_min=4, percent=75), store=store
    )

    first = await take(house, "t1")

    assert turns_of(first)["limit"] == 3
    assert store.sessions[CHAIN.session].base == 3


async def test_a_session_keeps_the_class_that_it_began_with() -> None:
    store = FakeTurnStore()
    rule = TurnRule(task_class="quick", terms=TurnTerms(mode=TurnMode.FIXED, turns=1))
    lax = TurnTerms(mode=TurnMode.FIXED, turns=9)
    house = House(turns=TurnPolicy(rules=(rule,), fallback=lax), turn_store=store)

    first = await take(house, "t1", task_class=TaskClass("quick"))
    second = await take(house, "t2", task_class=TaskClass("long"))
    restarted = House(turns=TurnPolicy(rules=(rule,), fallback=lax), turn_store=store)
    third = await take(restarted, "t3", task_class=TaskClass("long"))

    assert turns_of(first)["task_class"] == "quick"
    assert denied_why(second) == "turn_limit"
    assert turns_of(third)["task_class"] == "quick"


async def test_an_agent_that_names_no_class_has_the_one_that_is_set_for_it() -> None:
    store = FakeTurnStore()
    policy = TurnPolicy(
        fallback=TurnTerms(mode=TurnMode.FIXED),
        classes=(AgentClass(agent="a*", task_class=TaskClass("coding")),),
    )
    house = House(turns=policy, turn_store=store)

    assert turns_of(await take(house, "t1"))["task_class"] == "coding"


async def test_equal_calls_of_a_session_have_equal_prints_and_the_arguments_stay_hidden() -> None:
    house = limited(turns=9)
    for path in ("a", "a", "b"):
        call = a_call(house.clock.fresh("call"), turn="t1", path=path, token="tell-nobody")
        await house.run(call)

    prints = [(r.arguments_hash, r.result_hash) for r in house.ledger.records]

    assert prints[0] == prints[1]
    assert prints[2][0] != prints[0][0]
    assert "tell-nobody" not in json.dumps(prints)
