"""What every ledger promises, asked of the real one and of its double."""

from dataclasses import replace

import anyio
import pytest
from contracts.builders import AGENT, COST, SESSION, TENANT, budget, chain, record, request, used
from contracts.conftest import Stage, balance_of

from governor.amounts import Amounts, Unit
from governor.denial import DenialReason, Denied
from governor.errors import InvalidTransitionError
from governor.events import Reserved
from governor.ids import ReservationId
from governor.reservation import ReservationState
from governor.scope import ScopeChain, ScopeKind
from memory_store.accounts import BalanceView
from memory_store.errors import UnknownReservationError

pytestmark = pytest.mark.anyio


async def test_a_reservation_holds_its_estimate_on_the_budget(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))

    decision = await stage.ledger.admit(request({COST: 30}))

    assert isinstance(decision, Reserved)
    view = await balance_of(stage)
    assert (view.used, view.reserved, view.remaining) == (0, 30, 70)


async def test_settlement_charges_what_was_used_and_frees_the_rest(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)

    settled = await stage.ledger.settle(asked.reservation_id, used({COST: 12}), record(asked))

    assert settled.reservation.state is ReservationState.SETTLED
    view = await balance_of(stage)
    assert (view.used, view.reserved, view.overrun) == (12, 0, 0)


async def test_a_unit_that_nobody_measured_is_charged_as_held(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)

    blind = used({}, unmeasured={COST: "the provider reported no usage"})
    await stage.ledger.settle(asked.reservation_id, blind, record(asked))

    assert (await balance_of(stage)).used == 30


async def test_release_gives_everything_back(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)
    await stage.ledger.forward(asked.reservation_id)

    await stage.ledger.release(asked.reservation_id, record(asked))

    view = await balance_of(stage)
    assert (view.used, view.reserved) == (0, 0)


async def test_a_denial_changes_nothing(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}, budget_id="wide"))
    await stage.put_budget(
        budget({COST: 10}, budget_id="narrow", scope=ScopeKind.SESSION, subject=SESSION)
    )
    before = await stage.ledger.balances(tenant=TENANT, now_ms=1_000)

    decision = await stage.ledger.admit(request({COST: 30}, turn="t1", key=("k", "h")))

    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.BUDGET_EXHAUSTED
    assert await stage.ledger.balances(tenant=TENANT, now_ms=1_000) == before
    again = await stage.ledger.admit(request({COST: 5}, turn="t1", key=("k", "other")))
    assert isinstance(again, Reserved)
    assert again.amount.of(Unit.TURNS) == 1


async def test_of_64_concurrent_calls_exactly_as_many_are_admitted_as_fit(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 70}))
    decisions: list[object] = []

    async def one() -> None:
        decisions.append(await stage.ledger.admit(request({COST: 7})))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(64):
                group.start_soon(one)

    assert sum(isinstance(decision, Reserved) for decision in decisions) == 10
    assert (await balance_of(stage)).remaining == 0


@pytest.mark.parametrize("scope", [ScopeKind.TENANT, ScopeKind.AGENT, ScopeKind.SESSION])
async def test_a_budget_of_any_scope_denies_what_it_cannot_cover(
    stage: Stage, scope: ScopeKind
) -> None:
    await stage.put_budget(budget({COST: 10}, scope=scope))
    assert isinstance(await stage.ledger.admit(request({COST: 10})), Reserved)

    decision = await stage.ledger.admit(request({COST: 1}))

    assert isinstance(decision, Denied)
    assert decision.shortage is not None
    assert decision.shortage.budget_id == "b1"


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        (ScopeKind.AGENT, chain(agent="bob", session="ses_bob")),
        (ScopeKind.SESSION, chain(session="ses_two")),
    ],
)
async def test_a_budget_for_every_subject_gives_each_an_allowance_of_its_own(
    stage: Stage, scope: ScopeKind, other: ScopeChain
) -> None:
    await stage.put_budget(budget({COST: 10}, scope=scope))
    await stage.ledger.admit(request({COST: 10}))

    decision = await stage.ledger.admit(request({COST: 10}, of=other))

    assert isinstance(decision, Reserved)


async def test_a_budget_for_one_subject_leaves_the_others_alone(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 1}, scope=ScopeKind.AGENT, subject="bob"))

    decision = await stage.ledger.admit(request({COST: 10}))

    assert isinstance(decision, Reserved)
    assert decision.reservation.lines == ()


async def test_a_quota_stands_above_the_budgets(stage: Stage) -> None:
    generous = budget({COST: 100}, scope=ScopeKind.AGENT)
    await stage.put_budget(generous)
    await stage.put_quota(TENANT, Amounts({COST: 150}), budget({COST: 1}))
    await stage.ledger.admit(request({COST: 100}))

    bob = chain(agent="bob", session="ses_bob")
    decision = await stage.ledger.admit(request({COST: 100}, of=bob))

    assert isinstance(decision, Denied)
    assert decision.shortage is not None
    assert decision.shortage.budget_id == "quota:acme"


async def test_tenants_do_not_share_budgets(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}))
    await stage.ledger.admit(request({COST: 10}))

    elsewhere = chain(tenant="globex", agent="eve", session="ses_eve")
    decision = await stage.ledger.admit(request({COST: 10}, of=elsewhere))

    assert isinstance(decision, Reserved)
    assert await stage.ledger.balances(tenant=elsewhere.tenant, now_ms=1_000) == ()


async def test_a_settled_reservation_cannot_be_ended_again(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)
    await stage.ledger.settle(asked.reservation_id, used({COST: 30}), record(asked))

    with pytest.raises(InvalidTransitionError):
        await stage.ledger.settle(asked.reservation_id, used({COST: 30}), record(asked))
    with pytest.raises(InvalidTransitionError):
        await stage.ledger.release(asked.reservation_id, record(asked))
    assert await stage.ledger.expire_due(now_ms=99_999, all_live=True) == ()

    assert (await balance_of(stage)).used == 30


async def test_an_unknown_reservation_is_an_error(stage: Stage) -> None:
    unknown = ReservationId("res_none")

    with pytest.raises(UnknownReservationError):
        await stage.ledger.settle(unknown, used({}), record(request({})))
    with pytest.raises(UnknownReservationError):
        await stage.ledger.forward(unknown)


async def test_an_overrun_is_recorded_and_then_nothing_more_is_admitted(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30})
    await stage.ledger.admit(asked)

    await stage.ledger.settle(asked.reservation_id, used({COST: 130}), record(asked))

    view = await balance_of(stage)
    assert (view.used, view.overrun, view.remaining) == (130, 100, -30)
    assert isinstance(await stage.ledger.admit(request({COST: 1})), Denied)


async def test_usage_of_a_unit_that_was_not_estimated_is_charged_too(stage: Stage) -> None:
    await stage.put_budget(budget({Unit.CPU_MS: 1_000}))
    asked = request({COST: 1})
    await stage.ledger.admit(asked)

    await stage.ledger.settle(asked.reservation_id, used({Unit.CPU_MS: 400}), record(asked))

    assert (await balance_of(stage, unit=Unit.CPU_MS)).used == 400


async def test_an_expired_hold_that_never_left_is_refunded(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30}, expires_at_ms=5_000)
    await stage.ledger.admit(asked)
    assert await stage.ledger.expire_due(now_ms=4_999) == ()

    (expired,) = await stage.ledger.expire_due(now_ms=5_000)

    assert expired.reservation.reservation_id == asked.reservation_id
    view = await balance_of(stage)
    assert (view.used, view.reserved) == (0, 0)


@pytest.mark.requirement("crash.unforwarded-is-refunded")
async def test_a_turn_stays_charged_when_the_call_that_opened_it_expires(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100, Unit.TURNS: 1}))
    opened = request({COST: 30}, turn="t1", expires_at_ms=5_000)
    riding = request({COST: 10}, turn="t1", expires_at_ms=9_000)
    await stage.ledger.admit(opened)
    await stage.ledger.admit(riding)
    await stage.ledger.settle(riding.reservation_id, used({COST: 10}), record(riding))

    await stage.ledger.expire_due(now_ms=5_000)

    second = await stage.ledger.admit(request({COST: 1}, turn="t2", now_ms=5_001))
    assert isinstance(second, Denied)
    view = await balance_of(stage)
    assert (view.used, view.reserved) == (10, 0)


async def test_an_expired_hold_that_was_forwarded_is_charged_in_full(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 30}, expires_at_ms=5_000)
    await stage.ledger.admit(asked)
    await stage.ledger.forward(asked.reservation_id)

    await stage.ledger.expire_due(now_ms=5_000)

    view = await balance_of(stage)
    assert (view.used, view.reserved) == (30, 0)


async def test_what_leaves_at_once_is_held_as_forwarded(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    expiring, released, settled = (
        replace(request({COST: 30}, expires_at_ms=5_000), leaves_at_once=True) for _ in range(3)
    )
    for asked in (expiring, released, settled):
        decision = await stage.ledger.admit(asked)
        assert isinstance(decision, Reserved)
        assert decision.reservation.state is ReservationState.FORWARDED

    with pytest.raises(InvalidTransitionError):
        await stage.ledger.forward(expiring.reservation_id)
    await stage.ledger.release(released.reservation_id, record(released))
    await stage.ledger.settle(settled.reservation_id, used({COST: 7}), record(settled))
    await stage.ledger.expire_due(now_ms=5_000)

    view = await balance_of(stage)
    assert (view.used, view.reserved) == (37, 0)


async def test_all_live_holds_expire_at_once_when_a_process_starts_anew(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 1_000}))
    for _ in range(300):
        await stage.ledger.admit(request({COST: 1}, expires_at_ms=10**9))

    expired = await stage.ledger.expire_due(now_ms=2_000, all_live=True)

    assert len(expired) == 300
    assert (await balance_of(stage)).reserved == 0


async def test_an_expired_reservation_cannot_be_settled(stage: Stage) -> None:
    asked = request({COST: 30})
    await stage.ledger.admit(asked)
    await stage.ledger.expire_due(now_ms=10_000)

    with pytest.raises(InvalidTransitionError):
        await stage.ledger.settle(asked.reservation_id, used({COST: 1}), record(asked))


async def test_a_lowered_budget_denies_new_calls_and_settles_old_ones(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}))
    asked = request({COST: 60})
    await stage.ledger.admit(asked)

    await stage.put_budget(budget({COST: 50}))

    assert isinstance(await stage.ledger.admit(request({COST: 1})), Denied)
    await stage.ledger.settle(asked.reservation_id, used({COST: 40}), record(asked))
    assert isinstance(await stage.ledger.admit(request({COST: 10})), Reserved)


async def test_a_deleted_budget_governs_nothing_new_and_its_holds_still_settle(
    stage: Stage,
) -> None:
    await stage.put_budget(budget({COST: 10}))
    asked = request({COST: 10})
    await stage.ledger.admit(asked)

    await stage.delete_budget(budget({COST: 10}).budget_id)

    assert isinstance(await stage.ledger.admit(request({COST: 10**6})), Reserved)
    settled = await stage.ledger.settle(asked.reservation_id, used({COST: 4}), record(asked))
    assert [charge.charged for charge in settled.charges] == [4]
    assert await stage.ledger.balances(tenant=TENANT, now_ms=1_000) == ()


async def test_balances_are_narrowed_to_an_agent_and_its_sessions(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 100}, budget_id="1-all"))
    await stage.put_budget(budget({COST: 50}, budget_id="2-agent", scope=ScopeKind.AGENT))
    await stage.put_budget(budget({COST: 20}, budget_id="3-session", scope=ScopeKind.SESSION))
    bob = chain(agent="bob", session="ses_bob")
    await stage.ledger.admit(request({COST: 1}))
    await stage.ledger.admit(request({COST: 2}, of=bob))

    everyone = await stage.ledger.balances(tenant=TENANT, now_ms=1_000)
    of_ada = await stage.ledger.balances(tenant=TENANT, agent=AGENT, now_ms=1_000)
    fresh = await stage.ledger.balances(
        tenant=TENANT, agent=AGENT, session=chain(session="ses_new").session, now_ms=1_000
    )

    def figures(views: tuple[BalanceView, ...]) -> list[tuple[str, int]]:
        return [(view.subject, view.reserved) for view in views]

    assert figures(everyone) == [
        ("acme", 3),
        ("ada", 1),
        ("bob", 2),
        ("ses_bob", 2),
        ("ses_one", 1),
    ]
    assert figures(of_ada) == [("acme", 3), ("ada", 1), ("ses_one", 1)]
    assert figures(fresh) == [("acme", 3), ("ada", 1), ("ses_new", 0)]


async def test_a_caller_that_gives_up_leaves_the_others_served(stage: Stage) -> None:
    await stage.put_budget(budget({COST: 10}))
    served: list[object] = []

    async def patient() -> None:
        served.append(await stage.ledger.admit(request({COST: 1})))

    async def impatient() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stage.ledger.admit(request({COST: 1}))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(patient)
                group.start_soon(impatient)

    assert len(served) == 5
    assert all(isinstance(decision, Reserved) for decision in served)
