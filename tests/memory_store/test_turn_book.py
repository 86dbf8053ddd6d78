from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, chain, record, request, used

from governor.amounts import Unit
from governor.call import CallStatus
from governor.events import Reserved
from governor.ids import SessionId, TaskClass
from governor.turn_control import FinishedSession
from governor.turn_policy import TurnMode
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import NotFoundError
from memory_store.productivity import Figures, Grouping, ProductivityLine
from memory_store.store import Store, open_store

pytestmark = pytest.mark.anyio

BY = Actor(name="root")
BUG, CHORE = TaskClass("bug"), TaskClass("chore")


async def call(
    store: Store,
    turn: str | None = None,
    *,
    session: str = SESSION,
    agent: str = AGENT,
    cost: int = 10,
    prints: tuple[str, str] | None = None,
    status: CallStatus = CallStatus.OK,
    name: str = "files__read",
    now_ms: int = 1_000,
) -> None:
    """Run one tool call to its end, as the gateway would."""
    asked = request(
        {Unit.TOOL_CALLS: 1}, of=chain(session=session, agent=agent), turn=turn, now_ms=now_ms
    )
    reserved = await store.ledger.admit(asked)
    assert isinstance(reserved, Reserved)
    usage = used({Unit.TOOL_CALLS: 1, COST: cost, Unit.CPU_MS: 3})
    ended = replace(
        record(asked, status=status, usage=usage, ended_at_ms=now_ms + 1),
        name=name,
        arguments_hash=None if prints is None else f"{session}{prints[0]}",
        result_hash=None if prints is None else f"{session}{prints[1]}",
    )
    await store.ledger.settle(reserved.reservation.reservation_id, usage, ended)


async def begin(
    store: Store, session: str = SESSION, *, task_class: TaskClass = BUG, at_ms: int = 1
) -> None:
    await store.turns.begin(
        chain(session=session),
        task_class=task_class,
        mode=TurnMode.FIXED,
        base_turns=20,
        now_ms=at_ms,
    )


@pytest.mark.requirement("turns.survive-a-restart")
async def test_turns_extensions_and_progress_survive_a_restart(state_dir: Path) -> None:
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        await begin(store)
        await call(store, "t1", prints=("a", "one"), now_ms=1_000)
        await call(store, "t1", prints=("b", "two"), now_ms=2_000)
        await store.turns.extend(SESSION, turns=7, reason="more", by=BY, now_ms=3_000)
        await call(store, "t2", prints=("c", "three"), now_ms=4_000)

    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        past = await store.turns.past(SESSION)

    assert (past.view.mode, past.view.task_class, past.view.limit) == (TurnMode.FIXED, BUG, 27)
    assert set(past.turns) == {"t1", "t2"}
    assert past.cost_microusd == 30
    assert [printed.result_hash for printed in past.prints[past.fresh_from :]] == ["ses_onethree"]


async def test_a_session_keeps_its_class_and_can_change_its_limit(store: Store) -> None:
    await begin(store)
    await begin(store, task_class=CHORE)

    assert (await store.turns.view(SESSION)).task_class == BUG


async def test_an_extension_is_numbered_and_leaves_an_audit_line(store: Store) -> None:
    await call(store, "t1")
    await store.turns.mark_cut(SESSION)
    await store.turns.extend(SESSION, turns=3, reason="close to done", by=BY, now_ms=5)
    view = await store.turns.extend(SESSION, turns=4, reason="again", by=BY, now_ms=6)

    latest = (await store.audit.page()).items[0]

    assert [(e.number, e.turns, e.reason) for e in view.extensions] == [
        (1, 3, "close to done"),
        (2, 4, "again"),
    ]
    assert not view.was_cut
    assert (latest.action, latest.target, latest.actor) == ("session.extend", SESSION, "root")
    assert latest.after == {"extended": 7, "turns": 4, "reason": "again"}


async def test_a_session_that_nobody_saw_is_not_extended_and_has_no_outcome(store: Store) -> None:
    nobody = SessionId("ses_nobody")

    with pytest.raises(NotFoundError, match="ses_nobody"):
        await store.turns.extend(nobody, turns=1, reason="x", by=BY, now_ms=1)
    with pytest.raises(NotFoundError, match="ses_nobody"):
        await store.turns.set_outcome(nobody, is_solved=True, by=BY, now_ms=1)


async def test_the_history_of_a_class_holds_what_is_over_and_nothing_else(store: Store) -> None:
    for number, session in enumerate(("ses_a", "ses_b", "ses_c", "ses_d")):
        await begin(store, session, at_ms=number, task_class=CHORE if session == "ses_d" else BUG)
        for turn in range(number + 1):
            await call(store, f"t{turn}", session=session)
    await store.sessions.close(SessionId("ses_a"), by=BY, now_ms=9)
    await store.turns.set_outcome(SessionId("ses_b"), is_solved=True, by=BY, now_ms=9)
    await store.turns.set_outcome(SessionId("ses_d"), is_solved=False, by=BY, now_ms=9)
    await store.turns.mark_cut(SessionId("ses_a"))

    history = await store.turns.history(tenant=TENANT, task_class=BUG)

    assert history == (
        FinishedSession(turns=2, cost_microusd=20, is_solved=True, was_cut=False),
        FinishedSession(turns=1, cost_microusd=10, is_solved=None, was_cut=True),
    )


async def test_the_last_word_about_an_outcome_stands_and_each_is_audited(store: Store) -> None:
    await call(store)
    await store.turns.set_outcome(SESSION, is_solved=False, by=Actor(name="ada"), now_ms=5)
    view = await store.turns.set_outcome(SESSION, is_solved=True, by=BY, now_ms=6)

    entry = (await store.audit.page()).items[0]

    assert (view.is_solved, view.outcome_by, view.outcome_at_ms) == (True, "root", 6)
    assert (entry.before, entry.after) == ({"success": False}, {"success": True})


async def lines(store: Store, by: Grouping, **more: object) -> Mapping[str, Figures]:
    found: list[ProductivityLine] = []
    cursor: str | None = None
    while True:
        page = await store.productivity.page(by, cursor=cursor, limit=1, **more)
        found += page.items
        cursor = page.next
        if cursor is None:
            return {line.key: line.figures for line in found}


@pytest.mark.requirement("metrics.productivity")
async def test_what_calls_brought_is_counted_by_session_agent_tool_and_class(store: Store) -> None:
    await begin(store, "ses_a")
    await begin(store, "ses_b", task_class=CHORE)
    await call(store, session="ses_a", prints=("a", "one"))
    await call(store, session="ses_a", prints=("a", "one"))  # redundant
    await call(store, session="ses_a", prints=("b", "one"))  # the same answer by another way
    await call(store, session="ses_a", prints=("c", "no"), status=CallStatus.TOOL_ERROR)
    await call(store, session="ses_b", prints=("a", "one"), name="web__get", cost=60)
    await store.turns.set_outcome(SessionId("ses_a"), is_solved=True, by=BY, now_ms=9)
    await store.turns.set_outcome(SessionId("ses_b"), is_solved=False, by=BY, now_ms=9)

    by_agent = await lines(store, Grouping.AGENT)
    by_session = await lines(store, Grouping.SESSION)
    by_tool = await lines(store, Grouping.TOOL)
    by_class = await lines(store, Grouping.TASK_CLASS)

    whole = by_agent[AGENT]
    assert (whole.sessions, whole.tool_calls, whole.useful_results) == (2, 5, 2)
    assert (whole.comparable_calls, whole.redundant_calls) == (5, 1)
    assert (whole.attempts, whole.solved, whole.attempts_cost_microusd) == (2, 1, 100)
    assert whole.cpu_ms == 15
    assert {key: line.useful_results for key, line in by_session.items()} == {
        "ses_a": 1,
        "ses_b": 1,
    }
    assert {key: line.cost_microusd for key, line in by_tool.items()} == {
        "files__read": 40,
        "web__get": 60,
    }
    assert {key: line.solved for key, line in by_class.items()} == {"bug": 1, "chore": 0}


async def test_lines_can_be_asked_for_one_tenant_one_agent_and_since_a_time(store: Store) -> None:
    await call(store, now_ms=1_000)
    await call(store, session="ses_other", agent="bob", now_ms=9_000)

    assert set(await lines(store, Grouping.AGENT, agent="bob")) == {"bob"}
    assert set(await lines(store, Grouping.AGENT, since_ms=5_000)) == {"bob"}
    assert set(await lines(store, Grouping.AGENT, tenant="nobody")) == set()


async def test_a_session_is_listed_with_its_turns_even_before_it_called_anything(
    store: Store,
) -> None:
    await begin(store)
    await call(store, "t1")
    await store.turns.extend(SESSION, turns=5, reason="x", by=BY, now_ms=3)

    (line,) = (await store.productivity.page(Grouping.SESSION, since_ms=10_000)).items

    assert line.session is not None
    assert (line.session.turns_used, line.session.turns_limit) == (1, 25)
    assert line.figures == Figures()
