from dataclasses import replace
from pathlib import Path

import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, chain, record, request, used
from hypothesis import example, given
from hypothesis import strategies as st

from governor.amounts import Amounts
from governor.denial import DenialReason, Denied
from governor.ids import PrincipalId, ReservationId, SessionId
from governor.scope import ScopeChain
from memory_store import sessions
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.engine import Durability
from memory_store.errors import AlreadyExistsError, NotFoundError
from memory_store.freezing import IDLE
from memory_store.sessions import session_id_for
from memory_store.store import Store, open_store

ADMIN = Actor(name="root")
_pair = st.tuples(st.text(max_size=4), st.text(max_size=4))


@example(("ada", "bob"), ("adab", "ob"))
@example(("", "ada"), ("ada", ""))
@given(_pair, _pair)
def test_two_agents_never_name_the_same_session(one: tuple[str, str], two: tuple[str, str]) -> None:
    ids = [session_id_for(PrincipalId(agent), name) for agent, name in (one, two)]

    assert (ids[0] == ids[1]) == (one == two)


@pytest.mark.anyio
async def test_a_session_is_known_from_its_first_call(store: Store) -> None:
    await store.ledger.admit(request({COST: 1}, now_ms=1_000))
    await store.ledger.admit(request({COST: 1}, now_ms=3_000))
    await store.ledger.admit(request({COST: 1}, now_ms=2_000))

    view = await store.sessions.get(SESSION)

    assert (view.tenant, view.agent, view.name) == (TENANT, AGENT, "one")
    assert (view.opened_at_ms, view.last_seen_at_ms, view.closed_at_ms) == (1_000, 3_000, None)


@pytest.mark.anyio
async def test_a_session_is_closed_once_and_says_by_whom(store: Store) -> None:
    await store.ledger.admit(request({COST: 1}))

    closed = (await store.sessions.close(SESSION, by=ADMIN, now_ms=5_000)).session
    again = (await store.sessions.close(SESSION, by=Actor(name="eve"), now_ms=6_000)).session

    assert (closed.closed_at_ms, closed.closed_by) == (5_000, "root")
    assert again == closed


@pytest.mark.anyio
@pytest.mark.requirement("session.closed-denies")
@pytest.mark.parametrize(
    ("by", "told"),
    [
        (Actor(name="root"), "ended by an administrator"),
        (Actor(name=AGENT), "You closed this session yourself"),
        (Actor(name=IDLE), "had been idle"),
    ],
)
async def test_who_comes_back_to_a_closed_session_is_told_who_ended_it(
    store: Store, by: Actor, told: str
) -> None:
    first = request({COST: 1})
    await store.ledger.admit(first)
    await store.sessions.close(first.chain.session, by=by, now_ms=5)

    at_once = await store.ledger.admit(request({COST: 1}))
    held_before = await store.ledger.forward(first.reservation_id)

    for denied in (at_once, held_before):
        assert isinstance(denied, Denied)
        assert denied.reason is DenialReason.SESSION_CLOSED
        assert told in denied.remedy.text


@pytest.mark.anyio
async def test_a_session_that_was_never_seen_cannot_be_closed(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.sessions.close(SESSION, by=ADMIN, now_ms=5_000)


@pytest.mark.anyio
async def test_only_unnamed_sessions_that_rest_are_closed(store: Store) -> None:
    async def seen(session: str, *, name: str, at_ms: int, is_live: bool = False) -> None:
        asked = replace(
            request({COST: 1}, of=chain(session=session), now_ms=at_ms), session_name=name
        )
        await store.ledger.admit(asked)
        if not is_live:
            await store.ledger.settle(
                asked.reservation_id, used({COST: 1}), record(asked, ended_at_ms=at_ms + 500)
            )

    await seen("ses_rests", name="implicit_1", at_ms=1_000)
    await seen("ses_ended_lately", name="implicit_2", at_ms=1_600)
    await seen("ses_seen_lately", name="implicit_3", at_ms=2_000)
    await seen("ses_runs", name="implicit_4", at_ms=1_000, is_live=True)
    await seen("ses_named", name="implicitly mine", at_ms=1_000)

    closed = await store.sessions.close_idle(
        prefix="implicit_", before_ms=2_000, by=Actor(name="idle"), now_ms=9_000
    )

    found = (await store.sessions.page(is_open=False)).items
    (audited, *_) = (await store.audit.page()).items
    assert closed == 1
    assert [(view.session_id, view.closed_at_ms, view.closed_by) for view in found] == [
        ("ses_rests", 9_000, "idle")
    ]
    assert (audited.action, audited.actor, audited.target) == ("session.close", "idle", "ses_rests")


@pytest.mark.anyio
async def test_however_many_sessions_rest_all_are_closed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CLOSED_AT_ONCE", 2)
    for number in range(5):
        asked = request({COST: 1}, of=chain(session=f"ses_{number}"), expires_at_ms=1_500)
        await store.ledger.admit(replace(asked, session_name=f"implicit_{number}"))
    await store.ledger.expire_due(now_ms=1_500)

    closed = await store.sessions.close_idle(
        prefix="implicit_", before_ms=2_000, by=Actor(name="idle"), now_ms=9_000
    )

    assert closed == 5
    assert (await store.sessions.page(is_open=True)).items == ()


@pytest.mark.anyio
@pytest.mark.parametrize("work", ["seen", "runs", "ended"])
async def test_a_session_does_not_rest_while_one_far_below_it_works(
    store: Store, work: str
) -> None:
    top = replace(request({COST: 1}), session_name="implicit_1")
    await store.ledger.admit(top)
    await store.ledger.settle(top.reservation_id, used({COST: 1}), record(top))
    child = await spawned(store, "child")
    grandchild = await spawned(store, "grandchild", parent=child.session)
    asked = request(
        {COST: 1},
        of=grandchild,
        now_ms=60_000 if work == "seen" else 1_500,
        expires_at_ms=90_000,
    )
    await store.ledger.admit(asked)
    if work != "runs":
        ended = record(asked, ended_at_ms=60_000)
        await store.ledger.settle(asked.reservation_id, used({COST: 1}), ended)

    async def close_idle(before_ms: int) -> int:
        return await store.sessions.close_idle(
            prefix="implicit_", before_ms=before_ms, by=Actor(name="idle"), now_ms=95_000
        )

    at_work = await close_idle(60_000)
    await store.ledger.expire_due(now_ms=90_000)
    at_rest = await close_idle(95_000)

    assert (at_work, at_rest) == (0, 1)
    assert (await store.sessions.page(is_open=True)).items == ()


@pytest.mark.anyio
async def test_sessions_are_filtered_and_paged_from_the_latest(store: Store) -> None:
    for number in range(5):
        of = chain(session=f"ses_{number}")
        await store.ledger.admit(request({COST: 1}, of=of, now_ms=1_000 + number // 2))
    await store.sessions.close(chain(session="ses_4").session, by=ADMIN, now_ms=5_000)

    first = await store.sessions.page(tenant=TENANT, is_open=True, limit=3)
    second = await store.sessions.page(tenant=TENANT, is_open=True, limit=3, cursor=first.next)
    closed = await store.sessions.page(agent=AGENT, is_open=False)

    assert [view.session_id for view in first.items] == ["ses_3", "ses_2", "ses_1"]
    assert [view.session_id for view in second.items] == ["ses_0"]
    assert [view.session_id for view in closed.items] == ["ses_4"]


@pytest.mark.anyio
async def test_the_holds_of_a_frozen_session_get_its_time_back(store: Store) -> None:
    await store.ledger.admit(request({COST: 1}, expires_at_ms=10_000))
    await store.ledger.admit(request({COST: 1}, of=chain(session="ses_two"), expires_at_ms=10_000))
    await store.sessions.freeze(SESSION, by=ADMIN, now_ms=4_000)

    while_frozen = await store.ledger.expire_due(now_ms=4_000_000)
    await store.sessions.resume(SESSION, by=ADMIN, now_ms=5_004_000)
    early = await store.ledger.expire_due(now_ms=5_009_999)
    in_time = await store.ledger.expire_due(now_ms=5_010_000)

    assert [fact.reservation.chain.session for fact in while_frozen] == ["ses_two"]
    assert (len(early), len(in_time)) == (0, 1)


@pytest.mark.anyio
async def test_a_clock_that_steps_back_while_frozen_takes_no_time_from_a_hold(
    store: Store,
) -> None:
    await store.ledger.admit(request({COST: 1}, expires_at_ms=10_000))
    await store.sessions.freeze(SESSION, by=ADMIN, now_ms=4_000)

    await store.sessions.resume(SESSION, by=ADMIN, now_ms=1_000)

    assert await store.ledger.expire_due(now_ms=9_999) == ()
    assert len(await store.ledger.expire_due(now_ms=10_000)) == 1


@pytest.mark.anyio
@pytest.mark.requirement("session.frozen-denies")
async def test_a_frozen_session_stays_frozen_over_a_restart_and_holds_nothing_anew(
    state_dir: Path,
) -> None:
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        await store.ledger.admit(request({COST: 1}))
        await store.sessions.freeze(SESSION, by=ADMIN, now_ms=4_000)
    async with open_store(state_dir, durability=Durability.PROCESS) as store:
        denied = await store.ledger.admit(request({COST: 1}))
        live = await store.ledger.expire_due(now_ms=5_000, all_live=True)

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_FROZEN
    assert len(live) == 1


@pytest.mark.anyio
@pytest.mark.requirement("session.frozen-denies")
async def test_a_hold_of_a_session_that_is_frozen_from_above_is_not_marked_meanwhile(
    store: Store,
) -> None:
    below = await spawned(store)
    asked = request({COST: 1}, of=below)
    await store.ledger.admit(asked)
    await store.sessions.freeze(SESSION, by=ADMIN, now_ms=4_000)

    denied = await store.ledger.forward(asked.reservation_id)
    await store.sessions.resume(SESSION, by=ADMIN, now_ms=5_000)
    marked = await store.ledger.forward(asked.reservation_id)

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.SESSION_FROZEN
    assert marked is None


@pytest.mark.anyio
async def test_a_sub_session_that_is_refused_opens_no_parent(store: Store) -> None:
    await store.ledger.admit(request({COST: 1}))
    asked = SpawnRequest(
        session_id=SESSION,
        reservation_id=ReservationId("carve"),
        tenant=TENANT,
        agent=AGENT,
        parent=SessionId("ses_never_seen"),
        parent_name="never seen",
        name="one",
        limits=Amounts({COST: 1}),
        now_ms=1_000,
    )

    with pytest.raises(AlreadyExistsError):
        await store.ledger.spawn(asked)

    with pytest.raises(NotFoundError):
        await store.sessions.get(asked.parent)


async def spawned(store: Store, name: str = "below", *, parent: SessionId = SESSION) -> ScopeChain:
    chain = await store.ledger.spawn(
        SpawnRequest(
            session_id=SessionId(f"ses_{name}"),
            reservation_id=ReservationId(f"carve_{name}"),
            tenant=TENANT,
            agent=AGENT,
            parent=parent,
            parent_name="one",
            name=name,
            limits=Amounts({COST: 10}),
            now_ms=1_000,
        )
    )
    assert isinstance(chain, ScopeChain)
    return chain
