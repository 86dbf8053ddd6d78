"""What the workers agree on: the session of a caller that names none, and who said what lately."""

import pytest

from governor.ids import PrincipalId, TenantId
from memory_store.errors import StoreUnavailableError
from runtime.link.house import REPORTED_MS_MAX, House, TokenSession, WorkerReport
from runtime.link.sessions import SharedSessions
from tests.tool_gateway.makers import FakeClock
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.identity import Caller

pytestmark = pytest.mark.anyio

IDLE_MS = 40_000
ADA = Caller(tenant=TenantId("acme"), agent=PrincipalId("ada"), token_id="tok_ada")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def a_house(clock: FakeClock) -> House:
    return House(clock=clock, idle_ms=IDLE_MS, gate=None)


def workers(house: House, clock: FakeClock) -> tuple[SharedSessions, SharedSessions]:
    return (
        SharedSessions(house, clock=clock, idle_ms=IDLE_MS),
        SharedSessions(house, clock=clock, idle_ms=IDLE_MS),
    )


async def named(sessions: SharedSessions) -> str:
    await sessions.met(ADA)
    sessions.touch(ADA.token_id)
    return sessions.name_for(ADA.token_id)


@pytest.mark.requirement("workers.single-use")
async def test_all_workers_have_one_session_for_a_caller_until_it_rests_everywhere(
    clock: FakeClock,
) -> None:
    one, other = workers(a_house(clock), clock)
    first = [await named(one), await named(other)]
    for _ in range(8):
        # Only one of them is at work, longer than a session may rest.
        clock.at_ms += IDLE_MS // 4
        first.append(await named(one))
    first.append(await named(other))
    clock.at_ms += IDLE_MS + 1
    later = [await named(other), await named(one)]

    assert len(set(first)) == 1
    assert len(set(later)) == 1
    assert set(first) != set(later)


async def test_a_session_goes_on_when_the_one_who_names_them_begins_anew(clock: FakeClock) -> None:
    one, _ = workers(a_house(clock), clock)
    before = await named(one)
    one._house = a_house(clock)
    clock.at_ms += IDLE_MS // 4
    after = await named(one)

    assert before == after


async def test_without_anybody_to_ask_who_is_known_goes_on_and_nobody_is_invented(
    clock: FakeClock,
) -> None:
    class Away(House):
        async def session_of(
            self, token_id: str, *, known: str | None, touched_at_ms: int
        ) -> TokenSession:
            raise StoreUnavailableError

    one, other = workers(a_house(clock), clock)
    before = await named(one)
    one._house = other._house = Away(clock=clock, idle_ms=IDLE_MS, gate=None)
    clock.at_ms += IDLE_MS // 2

    assert await named(one) == before
    with pytest.raises(LedgerUnavailableError):
        await named(other)


@pytest.mark.requirement("run.key-is-pinned")
async def test_every_worker_knows_the_one_session_of_a_key_even_when_the_keeper_begins_anew(
    clock: FakeClock,
) -> None:
    house = a_house(clock)
    house.bind(ADA.token_id, "mine")
    one, other = workers(house, clock)

    names = [await named(one), await named(other)]
    one._house = a_house(clock)
    clock.at_ms += IDLE_MS + 1
    names.append(await named(one))

    assert names == ["mine"] * 3
    assert (one.pin_of(ADA.token_id), other.pin_of(ADA.token_id)) == ("mine", "mine")


@pytest.mark.requirement("run.key-is-pinned")
async def test_a_key_that_nobody_was_asked_about_is_not_taken_for_one_of_all_sessions(
    clock: FakeClock,
) -> None:
    one, _ = workers(a_house(clock), clock)

    with pytest.raises(LedgerUnavailableError):
        one.pin_of(ADA.token_id)
    await one.met(ADA)
    assert one.pin_of(ADA.token_id) is None


async def test_a_worker_that_says_nothing_any_more_is_not_counted(clock: FakeClock) -> None:
    house = a_house(clock)
    await house.report(WorkerReport(worker=2, pid=2, metrics=""))
    clock.at_ms += REPORTED_MS_MAX
    await house.report(WorkerReport(worker=1, pid=1, metrics=""))
    both = [one.worker for one in house.reports]
    clock.at_ms += 1

    assert both == [1, 2]
    assert [one.worker for one in house.reports] == [1]
