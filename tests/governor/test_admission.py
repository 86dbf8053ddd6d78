from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.account import Balance
from governor.admission import admit
from governor.amounts import Unit
from governor.denial import DenialReason, Denied, RemedyAction, Shortage
from governor.events import Reserved
from governor.ids import BudgetId
from governor.reservation import ReservationState
from governor.scope import ScopeKind
from governor.session import SessionState
from tests.governor.makers import CHAIN, NOW_MS, amounts, balance, request


def denied(*accounts: Balance, calls: int = 1, **options: Any) -> Denied:
    decision = admit(request(amounts(tool_calls=calls), **options), accounts, is_turn_new=False)
    assert isinstance(decision, Denied)
    return decision


def reserved(*accounts: Balance, calls: int = 1, is_turn_new: bool = False) -> Reserved:
    decision = admit(request(amounts(tool_calls=calls)), accounts, is_turn_new=is_turn_new)
    assert isinstance(decision, Reserved)
    return decision


@pytest.mark.requirement("budget.never-overrun")
def test_the_last_unit_of_a_budget_can_be_held_and_no_more() -> None:
    almost_full = balance(limit=10, settled=6, reserved=3)

    (line,) = reserved(almost_full, calls=1).reservation.lines
    assert line.amount == almost_full.remaining
    assert denied(almost_full, calls=2).reason is DenialReason.BUDGET_EXHAUSTED


@pytest.mark.requirement("budget.all-or-none")
@pytest.mark.parametrize("short", list(ScopeKind))
def test_one_short_budget_anywhere_in_the_chain_holds_everything_back(short: ScopeKind) -> None:
    accounts = [
        balance(scope.value, scope=scope, limit=0 if scope is short else 10) for scope in ScopeKind
    ]

    denial = denied(*accounts)

    assert denial.shortage is not None
    assert denial.shortage.budget_id == short.value
    assert denial.also == ()


@pytest.mark.requirement("budget.all-or-none")
def test_every_budget_of_the_chain_holds_its_part() -> None:
    accounts = [balance(scope.value, scope=scope) for scope in ScopeKind]

    held = reserved(*accounts, calls=3)

    assert held.reservation.state is ReservationState.HELD
    assert [line.amount for line in held.reservation.lines] == [3, 3, 3, 3]
    assert held.reservation.chain == CHAIN


@given(
    limits=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    used=st.integers(0, 12),
    wanted=st.integers(0, 12),
)
@pytest.mark.requirement("budget.all-or-none")
def test_admission_agrees_with_the_budgets_one_by_one(
    limits: list[int], used: int, wanted: int
) -> None:
    accounts = [balance(f"b{n}", limit=limit, settled=used) for n, limit in enumerate(limits)]

    decision = admit(request(amounts(tool_calls=wanted)), accounts, is_turn_new=False)

    assert isinstance(decision, Reserved) is all(used + wanted <= limit for limit in limits)


@pytest.mark.requirement("denial.narrowest-first")
@given(st.permutations(list(ScopeKind)))
def test_the_narrowest_short_scope_leads_and_the_others_follow(order: list[ScopeKind]) -> None:
    denial = denied(*(balance(scope.value, scope=scope, limit=0) for scope in order))

    assert denial.shortage is not None
    assert denial.shortage.budget_id == "sub_session"
    assert [other.budget_id for other in denial.also] == ["session", "agent", "tenant"]


@pytest.mark.requirement("denial.shape")
def test_a_denial_carries_the_figures_of_the_short_budget() -> None:
    denial = denied(
        balance("hourly", limit=10, settled=7, reserved=2, resets_at_ms=NOW_MS + 1_500), calls=4
    )

    assert denial.shortage == Shortage(
        budget_id=BudgetId("hourly"),
        unit=Unit.TOOL_CALLS,
        limit=10,
        used=7,
        reserved=2,
        requested=4,
        resets_at_ms=NOW_MS + 1_500,
    )
    assert denial.retry_after_ms == 1_500


@pytest.mark.requirement("budget.all-or-none")
def test_a_budget_on_a_unit_that_the_call_does_not_use_lets_it_pass() -> None:
    """A spent token budget does not stop a tool, which needs no tokens."""
    overrun = balance("tokens", unit=Unit.OUTPUT_TOKENS, limit=10, settled=15)

    held = reserved(overrun)

    assert held.reservation.lines[0].amount == 0


def test_a_call_without_budgets_is_held_nowhere() -> None:
    held = reserved()

    assert held.reservation.lines == ()
    assert held.amount.of(Unit.TOOL_CALLS) == 1


@pytest.mark.requirement("turn.first-call-pays")
def test_the_first_call_of_a_turn_pays_for_it_and_the_next_rides() -> None:
    turns = balance("turns", unit=Unit.TURNS, limit=1)

    first = reserved(turns, is_turn_new=True)
    again = reserved(turns._replace(reserved=1), is_turn_new=False)

    assert first.reservation.lines[0].amount == 1
    assert again.reservation.lines[0].amount == 0


@pytest.mark.requirement("turn.unknown-denies")
def test_a_turns_budget_denies_a_call_whose_turn_is_unknown() -> None:
    denial = denied(balance("turns", unit=Unit.TURNS), turn=None)

    assert denial.reason is DenialReason.TURN_UNKNOWN
    assert denial.remedy.action is RemedyAction.SEND_TURN
    assert denial.shortage is not None
    assert denial.shortage.requested == 1


@pytest.mark.requirement("turn.unknown-denies")
def test_an_unknown_turn_matters_only_where_turns_are_counted() -> None:
    decision = admit(request(turn=None), [balance()], is_turn_new=False)

    assert isinstance(decision, Reserved)


@pytest.mark.requirement("unit.unmeasurable-denies")
def test_a_budget_on_a_unit_that_nobody_can_measure_denies_with_the_reason() -> None:
    denial = denied(
        balance("cpu", unit=Unit.CPU_MS),
        unmeasurable={Unit.CPU_MS: "no cgroup can be written"},
    )

    assert denial.reason is DenialReason.UNIT_UNMEASURABLE
    assert denial.remedy.action is RemedyAction.ASK_ADMINISTRATOR
    assert "no cgroup can be written" in denial.remedy.text


@pytest.mark.requirement("unit.unmeasurable-denies")
def test_an_unmeasurable_unit_without_a_budget_does_not_matter() -> None:
    decision = admit(
        request(unmeasurable={Unit.CPU_MS: "somewhere else"}), [balance()], is_turn_new=False
    )

    assert isinstance(decision, Reserved)


@pytest.mark.requirement("session.closed-denies")
def test_a_closed_session_admits_nothing() -> None:
    decision = admit(request(), [balance()], is_turn_new=False, session=SessionState.CLOSED)

    assert isinstance(decision, Denied)
    assert decision.reason is DenialReason.SESSION_CLOSED
    assert decision.remedy.action is RemedyAction.NEW_SESSION
    assert decision.shortage is None


@pytest.mark.requirement("denial.remedy-helps")
def test_waiting_is_the_remedy_while_running_calls_hold_what_is_missing() -> None:
    denial = denied(balance(limit=10, settled=2, reserved=8), calls=3)

    assert denial.remedy.action is RemedyAction.RETRY_LATER
    assert "Calls still running hold 8" in denial.remedy.text
    assert denial.retry_after_ms is None


@pytest.mark.requirement("denial.remedy-helps")
def test_a_window_that_resets_is_waited_for_in_whole_seconds_rounded_up() -> None:
    denial = denied(balance(limit=3, settled=3, resets_at_ms=NOW_MS + 1_001), calls=3)

    assert denial.remedy.action is RemedyAction.RETRY_LATER
    assert "It resets in 2 s" in denial.remedy.text


@pytest.mark.requirement("denial.remedy-helps")
def test_a_call_that_is_larger_than_the_whole_budget_is_never_told_to_wait() -> None:
    """No reset makes room for it: a model that waits and tries again would loop."""
    denial = denied(balance(limit=3, settled=0, resets_at_ms=NOW_MS + 1_000), calls=4)

    assert denial.remedy.action is RemedyAction.REQUEST_LESS
    assert denial.retry_after_ms is None


@pytest.mark.requirement("denial.remedy-helps")
def test_the_last_reset_decides_and_one_that_never_comes_ends_the_waiting() -> None:
    soon = balance("soon", scope=ScopeKind.AGENT, limit=1, settled=1, resets_at_ms=NOW_MS + 10)
    late = balance("late", limit=1, settled=1, resets_at_ms=NOW_MS + 900)
    never = balance("never", limit=1, settled=1)

    assert denied(soon, late).retry_after_ms == 900
    assert denied(soon, late, never).retry_after_ms is None


@pytest.mark.requirement("denial.remedy-helps")
@pytest.mark.parametrize(
    ("settled", "action"),
    [(8, RemedyAction.REQUEST_LESS), (10, RemedyAction.FINISH_WITH_WHAT_YOU_HAVE)],
)
def test_what_is_left_of_a_lifetime_decides_what_to_do(settled: int, action: RemedyAction) -> None:
    denial = denied(balance(limit=10, settled=settled), calls=3)

    assert denial.remedy.action is action


@pytest.mark.requirement("denial.remedy-helps")
def test_an_overrun_budget_is_never_said_to_have_less_than_nothing_left() -> None:
    denial = denied(balance(limit=10, settled=14))

    assert "has 0 of 10 tool_calls left" in denial.remedy.text


@pytest.mark.requirement("denial.changes-nothing")
def test_a_denial_leaves_the_balances_that_it_was_given_alone() -> None:
    accounts = (balance("a", limit=10), balance("b", limit=0))

    denied(*accounts)

    assert accounts == (balance("a", limit=10), balance("b", limit=0))


@pytest.mark.parametrize(
    ("unit", "key"),
    [
        (Unit.ENERGY_MJ, "estimate.energy_mj"),
        (Unit.WALL_MS, "limits.wall_ms"),
        (Unit.MEMORY_MIB_S, "estimate.memory_mib_s"),
    ],
)
def test_what_the_configuration_holds_too_much_of_is_told_with_the_key_to_lower(
    unit: Unit, key: str
) -> None:
    wanted = request(amounts(**{unit.value: 76_500}))

    decision = admit(wanted, (balance("small", unit=unit, limit=2_000),), is_turn_new=False)

    assert isinstance(decision, Denied)
    assert key in decision.remedy.text
