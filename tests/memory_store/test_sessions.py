import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, chain, request
from hypothesis import example, given
from hypothesis import strategies as st

from governor.ids import PrincipalId
from memory_store.audit import Actor
from memory_store.errors import NotFoundError
from memory_store.sessions import session_id_for
from memory_store.store import Store

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

    closed = await store.sessions.close(SESSION, by=ADMIN, now_ms=5_000)
    again = await store.sessions.close(SESSION, by=Actor(name="eve"), now_ms=6_000)

    assert (closed.closed_at_ms, closed.closed_by) == (5_000, "root")
    assert again == closed


@pytest.mark.anyio
async def test_a_session_that_was_never_seen_cannot_be_closed(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await store.sessions.close(SESSION, by=ADMIN, now_ms=5_000)


@pytest.mark.anyio
async def test_idle_sessions_are_the_open_ones_not_seen_lately(store: Store) -> None:
    for number in range(3):
        of = chain(session=f"ses_{number}")
        await store.ledger.admit(request({COST: 1}, of=of, now_ms=1_000 * number))
    await store.sessions.close(chain(session="ses_0").session, by=ADMIN, now_ms=5_000)

    idle = await store.sessions.idle(before_ms=2_000)

    assert [view.session_id for view in idle] == ["ses_1"]


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
