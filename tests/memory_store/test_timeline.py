"""Timelines and calls of the past on each real database."""

from dataclasses import replace

import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, chain, record, request, used

from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.ids import CallId, PrincipalId, ReservationId, SessionId, TurnId
from governor.scope import ScopeChain
from governor.target import CallKind, CallTarget
from memory_store import past_calls
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.past_calls import Whose
from memory_store.store import Store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="root")
BELOW = SessionId("ses_below")


async def _ended(
    store: Store, *, at_ms: int, turn: str | None = None, session: str = SESSION
) -> CallId:
    asked = request({COST: 100, Unit.TOOL_CALLS: 1}, of=chain(session=session), now_ms=at_ms)
    asked = replace(asked, turn=None if turn is None else TurnId(turn), expires_at_ms=at_ms + 900)
    await store.ledger.admit(asked)
    usage = used({COST: 40, Unit.TOOL_CALLS: 1})
    await store.ledger.settle(
        asked.reservation_id, usage, record(asked, usage=usage, ended_at_ms=at_ms + 50)
    )
    return asked.call_id


async def _denied(store: Store, *, at_ms: int, turn: str) -> CallId:
    asked = replace(request({COST: 100}, now_ms=at_ms), turn=TurnId(turn))
    denied = record(asked, status=CallStatus.DENIED, ended_at_ms=at_ms)
    model = replace(denied, kind=CallKind.MODEL, name="big", rule="tier high: auto")
    await store.calls.record(replace(model, denial=DenialReason.UNPRICED))
    return asked.call_id


@pytest.mark.requirement("timeline.order")
async def test_a_timeline_is_the_same_whole_and_in_parts_with_the_sums_of_its_turns(
    store: Store,
) -> None:
    calls = [await _ended(store, at_ms=1_000 + 10 * n, turn=f"t{n // 3}") for n in range(5)]
    denied = await _denied(store, at_ms=1_040, turn="t0")
    await store.sessions.freeze(SESSION, by=ADMIN, now_ms=1_070)
    await store.sessions.resume(SESSION, by=ADMIN, now_ms=1_070)
    running = request({COST: 1}, now_ms=2_000)
    await store.ledger.admit(running)

    whole = await store.timelines.page(SESSION, limit=200)
    parts, cursor = [], None
    for _ in range(len(whole.moments.items)):
        part = await store.timelines.page(SESSION, cursor=cursor, limit=1)
        parts += part.moments.items
        cursor = part.moments.next

    told = [
        one.call.record.call_id if one.call else one.change.action if one.change else ""
        for one in whole.moments.items
    ]
    assert told == [denied, *calls[:3], "session.freeze", "session.resume", *calls[3:]]
    assert (parts, cursor) == (list(whole.moments.items), None)
    assert [(one.turn, one.number, one.calls, one.denied) for one in whole.turns] == [
        ("t0", 1, 4, 1),
        ("t1", 2, 2, 0),
    ]
    assert [one.cost_microusd for one in whole.turns] == [120, 80]
    assert [one.call_id for one in whole.running] == [running.call_id]


async def test_calls_of_the_past_are_read_the_last_first_with_what_they_held_and_cost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_calls, "READ_AT_ONCE", 2)
    calls = [await _ended(store, at_ms=1_000 + 10 * n) for n in range(4)]
    denied = await _denied(store, at_ms=1_200, turn="t0")
    whose = Whose(tenant=TENANT, agent=AGENT)

    found, cursor = [], None
    while True:
        page = await store.past_calls.page(whose, since_ms=1_055, units=[COST], cursor=cursor)
        found += page.items
        cursor = page.next
        if cursor is None:
            break

    assert [one.call_id for one in found] == [denied, *reversed(calls[1:])]
    first, last = found[0], found[-1]
    assert (first.was_denied, first.target) == (
        True,
        CallTarget(kind=CallKind.MODEL, name="big", upstream="files", tier="high"),
    )
    assert (last.estimate, last.charged) == (Amounts({COST: 100}), Amounts({COST: 40}))
    assert (last.target.upstream, last.started_at_ms, last.ended_at_ms) == ("files", 1_010, 1_060)
    assert await store.past_calls.first_ended_at_ms(TENANT) == 1_050
    others = Whose(tenant=TENANT, agent=PrincipalId("nobody"))
    assert not (await store.past_calls.page(others, since_ms=0, units=[COST])).items


@pytest.mark.requirement("preview.as-the-ledger")
async def test_calls_of_sub_sessions_come_with_the_sessions_above_them(store: Store) -> None:
    await _ended(store, at_ms=1_000)
    below = await store.ledger.spawn(
        SpawnRequest(
            reservation_id=ReservationId("res_below"),
            tenant=TENANT,
            agent=AGENT,
            parent=SESSION,
            parent_name="one",
            session_id=BELOW,
            name="below",
            limits=Amounts({COST: 500, Unit.TOOL_CALLS: 5}),
            now_ms=1_100,
        )
    )
    assert isinstance(below, ScopeChain)
    asked = request({COST: 10, Unit.TOOL_CALLS: 1}, of=below, now_ms=1_200, expires_at_ms=1_900)
    await store.ledger.admit(asked)
    usage = used({COST: 10, Unit.TOOL_CALLS: 1})
    await store.ledger.settle(asked.reservation_id, usage, record(asked, usage=usage))

    whose = Whose(tenant=TENANT, session=SESSION)
    found = (await store.past_calls.page(whose, since_ms=0, units=[COST])).items

    assert [one.chain.sessions for one in found] == [(SESSION, BELOW), (SESSION,)]
    assert (await store.timelines.page(SESSION)).children == (BELOW,)
