"""Denials are told at once and then as one figure, however many there are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.call import ToolCall
from governor.denial import DenialReason, Denied, Remedy, RemedyAction, Shortage
from governor.denial_tally import ANYBODY, DenialTally
from governor.ids import BudgetId, CallId, PrincipalId, SessionId, TenantId, ToolName
from governor.scope import ScopeChain
from governor.target import CallKind

WINDOW = 1_000
REMEDY = Remedy(action=RemedyAction.REQUEST_LESS, text="less")
DENIED = Denied(reason=DenialReason.POLICY_DENIED, remedy=REMEDY)


def call(number: int = 1, *, agent: str = "ada") -> ToolCall:
    return ToolCall(
        call_id=CallId(f"call_{number}"),
        tool=ToolName("files__read"),
        arguments={},
        chain=ScopeChain(
            tenant=TenantId("acme"), agent=PrincipalId(agent), session=SessionId(f"ses_{agent}")
        ),
        turn=None,
    )


def tally(*, kinds_max: int = 4) -> DenialTally:
    return DenialTally(window_ms=WINDOW, kinds_max=kinds_max)


@pytest.mark.requirement("notice.denials-added-up")
def test_the_first_is_told_at_once_and_the_others_as_one_figure() -> None:
    made = tally()

    made.note(call(1), CallKind.TOOL, DENIED, now_ms=0)
    first = made.due(now_ms=1)
    for number in range(2, 1_002):
        made.note(call(number), CallKind.TOOL, DENIED, now_ms=10)
    meanwhile = made.due(now_ms=WINDOW)
    later = made.due(now_ms=1 + WINDOW)

    assert [(one.count, one.call_id) for one in first] == [(1, "call_1")]
    assert meanwhile == ()
    assert [(one.count, one.call_id, one.since_ms) for one in later] == [(1_000, "call_1001", 10)]
    assert made.due(now_ms=10 * WINDOW) == ()


def test_what_came_since_the_last_telling_is_the_rest_at_the_end() -> None:
    made = tally()
    made.note(call(1), CallKind.TOOL, DENIED, now_ms=0)
    made.due(now_ms=0)

    made.note(call(2), CallKind.TOOL, DENIED, now_ms=1)
    made.note(call(3), CallKind.TOOL, DENIED, now_ms=1)

    assert [(one.count, one.call_id) for one in made.rest()] == [(2, "call_3")]
    assert made.rest() == ()


def test_reasons_budgets_and_agents_are_told_apart() -> None:
    made, short = tally(), Shortage(
        budget_id=BudgetId("b"), unit=Unit.TOOL_CALLS, limit=1, used=1, reserved=0, requested=1,
        resets_at_ms=None,
    )  # fmt: skip

    made.note(call(1), CallKind.TOOL, DENIED, now_ms=0)
    made.note(call(2, agent="bob"), CallKind.MODEL, DENIED, now_ms=0)
    exhausted = replace(DENIED, reason=DenialReason.BUDGET_EXHAUSTED, shortage=short)
    made.note(call(3), CallKind.TOOL, exhausted, now_ms=0)

    told = {(one.agent, one.reason.value): one.shortage for one in made.due(now_ms=0)}
    assert told == {
        ("ada", "policy_denied"): None,
        ("bob", "policy_denied"): None,
        ("ada", "budget_exhausted"): short,
    }


@pytest.mark.requirement("notice.denials-added-up")
def test_more_agents_than_there_is_room_for_are_told_of_together() -> None:
    made = tally(kinds_max=4)

    for number in range(100):
        made.note(call(number, agent=f"agent-{number}"), CallKind.TOOL, DENIED, now_ms=0)

    told = made.due(now_ms=0)
    assert len(told) == 5
    assert {one.agent: one.count for one in told}[ANYBODY] == 96
    assert made.left_out == 0


def test_a_call_that_waits_for_a_person_is_no_news() -> None:
    made = tally()

    pending = replace(DENIED, reason=DenialReason.APPROVAL_PENDING)
    made.note(call(), CallKind.TOOL, pending, now_ms=0)

    assert made.due(now_ms=0) == ()


@pytest.mark.requirement("notice.denials-added-up")
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("deny"), st.integers(0, 9)),
            st.tuples(st.sampled_from(["tell", "fail"]), st.integers(0, 2 * WINDOW)),
        ),
        max_size=60,
    )
)
def test_whatever_fails_each_denial_is_told_once_or_counted_as_left_out(
    steps: list[tuple[str, int]],
) -> None:
    made, now_ms, noted, told = tally(kinds_max=2), 0, 0, 0

    for what, value in steps:
        if what == "deny":
            made.note(call(agent=f"a{value}"), CallKind.TOOL, DENIED, now_ms=now_ms)
            noted += 1
            continue
        now_ms += value
        due = made.due(now_ms=now_ms)
        if what == "fail":
            made.again(due)
        else:
            told += sum(one.count for one in due)
    for _ in range(2):
        now_ms += 2 * WINDOW
        told += sum(one.count for one in made.due(now_ms=now_ms))

    assert told + made.left_out == noted
