"""The redundant-call cache: asked again in time, answered as before."""

from dataclasses import replace

import anyio
import pytest

from governor.amounts import Unit
from governor.flow.labels import Label
from governor.flow.policy import FlowPolicy
from governor.ids import PrincipalId, SessionId, TenantId, ToolName
from governor.policy import CacheTerms
from governor.scope import ScopeChain
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, ENTRY, RULE, House, a_call
from tool_gateway.catalog import ToolEntry
from tool_gateway.guards import cache as cache_module
from tool_gateway.results import (
    CACHE_META,
    CALL_META,
    DENIAL_META,
    Outcome,
    ToolResult,
    text_result,
)

pytestmark = pytest.mark.anyio

TERMS = CacheTerms(ttl_ms=1_000)
READ = replace(ENTRY, definition={**ENTRY.definition, "annotations": {"readOnlyHint": True}})
WRITE = replace(ENTRY, exposed=ToolName("files__write"), original="write")


class Counting:
    """A backend's behaviour that answers with how often it was asked."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> Outcome:
        self.times += 1
        return Outcome(result=text_result(f"answer {self.times}"))


def house(terms: CacheTerms | None = TERMS, **more: object) -> House:
    behave = more.pop("behave", Counting())
    return House(budget(), rule=replace(RULE, cache=terms, loops=None), behave=behave, **more)


async def ask(
    it: House, entry: ToolEntry = READ, chain: ScopeChain = CHAIN, **arguments: object
) -> ToolResult:
    it.entry = entry
    call = a_call(it.clock.fresh("call"), **arguments)
    return await it.run(replace(call, tool=entry.exposed, chain=chain))


@pytest.mark.requirement("cache.costs-nothing")
async def test_the_same_question_in_time_is_answered_as_before_for_nothing() -> None:
    it = house()

    first = await ask(it, path="/a", depth=1)
    it.clock.at_ms += 999
    again = await ask(it, depth=1, path="/a")
    left = it.ledger.remaining(Unit.TOOL_CALLS)
    other = await ask(it, path="/b", depth=1)
    it.clock.at_ms += 1
    later = await ask(it, path="/a", depth=1)

    assert [each.sole_text for each in (first, again, other, later)] == [
        "answer 1",
        "answer 1",
        "answer 2",
        "answer 3",
    ]
    assert left == 9
    marked = again.meta[CACHE_META]
    assert marked == {"served_from": it.backend.ran[0].call_id, "age_ms": 999}
    assert again.meta[CALL_META]["status"] == "ok"
    assert not [each for each in (first, other, later) if CACHE_META in each.meta]


@pytest.mark.requirement("cache.scope")
@pytest.mark.parametrize(
    "chain",
    [
        replace(CHAIN, agent=PrincipalId("eve")),
        replace(CHAIN, tenant=TenantId("globex")),
    ],
)
async def test_nobody_is_answered_with_what_another_asked(chain: ScopeChain) -> None:
    it = house()

    await ask(it)
    theirs = await ask(it, chain=chain)

    assert theirs.sole_text == "answer 2"


async def test_another_session_of_the_agent_is_answered_under_its_own_turn() -> None:
    it = house()
    await ask(it)

    again = await ask(it, chain=replace(CHAIN, session=SessionId("ada/two")))

    assert again.sole_text == "answer 1"
    assert it.ledger.records[-1].chain.session == "ada/two"


@pytest.mark.requirement("cache.changes-void")
async def test_what_an_agent_changes_voids_what_it_read() -> None:
    it = house()

    await ask(it)
    await ask(it, WRITE)
    after = await ask(it)

    assert after.sole_text == "answer 3"


@pytest.mark.requirement("cache.changes-void")
async def test_a_reading_that_was_under_way_when_something_changed_is_not_kept() -> None:
    may_answer = anyio.Event()
    counting = Counting()

    async def slowly() -> Outcome:
        outcome = await counting()
        if counting.times == 1:
            await may_answer.wait()
        return outcome

    it = house(behave=slowly)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, it)
            await it.backend.started.wait()
            await ask(it, WRITE)
            may_answer.set()
    again = await ask(it)

    assert again.sole_text == "answer 3"


@pytest.mark.requirement("cache.changes-void")
async def test_what_was_read_while_something_changed_is_void_when_the_change_is_over() -> None:
    may_write, counting = anyio.Event(), Counting()

    async def slowly() -> Outcome:
        outcome = await counting()
        if counting.times == 1:
            await may_write.wait()
        return outcome

    it = house(behave=slowly)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, it, WRITE)
            await it.backend.started.wait()
            await ask(it)
            may_write.set()

    assert (await ask(it)).sole_text == "answer 3"


@pytest.mark.parametrize(
    ("terms", "entry"), [(None, READ), (TERMS, ENTRY)], ids=["no rule", "may write"]
)
async def test_without_a_rule_or_a_hint_every_call_runs(
    terms: CacheTerms | None, entry: ToolEntry
) -> None:
    it = house(terms)

    await ask(it, entry)

    assert (await ask(it, entry)).sole_text == "answer 2"


async def test_the_operators_word_is_enough() -> None:
    it = house(CacheTerms(ttl_ms=1_000, is_repeatable=True))

    await ask(it, ENTRY)

    assert (await ask(it, ENTRY)).sole_text == "answer 1"


async def test_a_changed_definition_answers_nothing_of_the_old_one() -> None:
    it = house()
    await ask(it)

    changed = replace(READ, definition={**READ.definition, "description": "Now another."})

    assert (await ask(it, changed)).sole_text == "answer 2"


async def test_an_error_is_not_kept() -> None:
    counting = Counting()

    async def failing() -> Outcome:
        outcome = await counting()
        return replace(outcome, result=replace(outcome.result, is_error=True))

    it = house(behave=failing)
    await ask(it)

    assert (await ask(it)).sole_text == "answer 2"


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def large() -> Outcome:
        return Outcome(result=text_result("x" * 3_000))

    it = house(behave=large)
    cache = it.pipeline._cache
    assert cache is not None
    cache._bytes_max = 20_000
    for number in range(50):
        agent = PrincipalId(f"agent-{number % 5}")
        await ask(it, chain=replace(CHAIN, agent=agent), number=number)

    assert 0 < sum(scope.size_bytes for scope in cache._scopes.values()) <= 20_000
    monkeypatch.setattr(cache_module, "RESULT_BYTES_MAX", 100)
    await ask(it, number=99)
    assert CACHE_META not in (await ask(it, number=99)).meta


@pytest.mark.requirement("flow.seen-survives")
async def test_a_served_answer_counts_as_seen_by_its_session() -> None:
    it = house(flow=FlowPolicy())
    two = replace(CHAIN, session=SessionId("ada/two"))

    await ask(it)
    served = await ask(it, chain=two)

    assert CACHE_META in served.meta
    assert Label.SEES_UNTRUSTED in it.flow_store.flows[two.session].marks
    it.flow_store.is_down = True
    three = replace(CHAIN, session=SessionId("ada/three"))
    assert DENIAL_META in (await ask(it, chain=three)).meta
