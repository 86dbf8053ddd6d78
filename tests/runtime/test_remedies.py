"""Whatever is denied, the denial says what can be done about it and whom to ask."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from governor.account import Balance, Booking
from governor.admission import admit
from governor.amounts import Unit
from governor.approval import ApprovalState, denial_of
from governor.denial import DenialReason, Denied, RemedyAction, TooLarge
from governor.flow.policy import Stopped, Then
from governor.gate import GateTerms
from governor.ids import CallId
from governor.likeness import print_of_call
from governor.loops import Entry, Loop, LoopKind, LoopMeasure
from governor.rate import Rate
from governor.refusal import clock_stepped_back, exhausted, session_frozen
from governor.session import SessionState
from governor.turn_control import TurnStanding, turn_limit_denied
from governor.turn_policy import TurnTerms
from runtime.model_gateway.job import Job, unpriced
from tests.governor.makers import CHAIN, NOW_MS, amounts, balance, question, request
from tests.tool_gateway.makers import FakeClock
from tool_gateway.denials import (
    access_denied,
    advised,
    arguments_too_large,
    denial_json,
    flow_denied,
    guard_denied,
    guard_failed,
    isolation_unavailable,
    ledger_unavailable,
    loop_detected,
    overloaded,
    policy_denied,
    quarantined,
    read_only,
    upstream_unavailable,
)
from tool_gateway.guards.gate import ReasoningGate


def short(
    *accounts: Balance, turn: str | None = "one", session: SessionState = SessionState.OPEN
) -> Denied:
    decision = admit(
        request(
            amounts(tool_calls=1, cost_microusd=7, cpu_ms=5),
            turn=turn,
            unmeasurable={Unit.CPU_MS: "elsewhere"},
        ),
        accounts,
        is_turn_new=False,
        session=session,
    )
    assert isinstance(decision, Denied)
    return decision


def in_a_loop(measure: LoopMeasure = LoopMeasure.DENY) -> Denied:
    entry = Entry(
        answer=CallId("call_1"),
        asked=print_of_call("t", {}),
        result=b"",
        is_reading=True,
        is_repeatable=True,
        is_error=False,
        at_ms=0,
    )
    loop = Loop(kind=LoopKind.IDENTICAL, count=6, measure=measure, like=entry)
    return loop_detected(loop, tool="t", within_ms=60_000)


def of_an_unpriced_tier() -> Denied:
    denied = unpriced(cast("Job", SimpleNamespace(tier=SimpleNamespace(name="low", price=None))))
    assert denied is not None
    return denied


def of_an_approval(state: ApprovalState) -> Denied:
    approval = question(created_at_ms=0, expires_at_ms=NOW_MS + 60_000, state=state)
    return denial_of(approval, now_ms=NOW_MS)


def at_a_gate() -> Denied:
    gate = ReasoningGate(key=b"k" * 32, clock=FakeClock())
    denied = gate.asked(GateTerms(), CHAIN.agent, rule="any")
    assert denied is not None
    return denied


MONEY = balance("money", unit=Unit.COST_MICROUSD, limit=5)
WINDOW = balance(
    "daily", unit=Unit.COST_MICROUSD, limit=10, settled=9, resets_at_ms=NOW_MS + 60_000
)
FAR = WINDOW._replace(account=replace(WINDOW.account, resets_at_ms=NOW_MS + 95_323_000))
WALL = balance("wall", unit=Unit.WALL_MS, limit=5)
SPENT = balance("spent", unit=Unit.COST_MICROUSD, limit=10, settled=10)
CALLS = balance("calls", limit=3, settled=3)
FULL = balance("slots", limit=2, reserved=2)
SLOTS = FULL._replace(account=replace(FULL.account, booking=Booking.SLOT))
RATE = Rate(limit=1, every_ms=60_000, burst=1)
PASSED = balance("rate", settled=NOW_MS + 60_000, limit=1)
RATED = PASSED._replace(account=replace(PASSED.account, booking=Booking.RATE, rate=RATE))

# Each denial, with a word that must stand in its remedy.
DENIED = {
    "less": (short(MONEY), "Ask for less"),
    "window": (short(WINDOW), "resets in 60 s"),
    "far": (short(FAR), "resets in 26 h, at 1970-01-02 02:45 UTC"),
    "held": (exhausted([(WALL, 7)], NOW_MS), "configuration"),
    "spent": (short(SPENT), "Finish with what you have"),
    "calls": (short(CALLS), "Finish with what you have"),
    "slots": (short(SLOTS), "when one ends"),
    "rate": (short(RATED), "Try again in 60 s"),
    "clock": (clock_stepped_back(back_ms=9_000), "caught up"),
    "turn": (short(balance("turns", unit=Unit.TURNS), turn=None), "Flyball-Turn"),
    "unmeasurable": (short(balance("cpu", unit=Unit.CPU_MS)), "best_effort"),
    "closed": (short(session=SessionState.CLOSED), "new session"),
    "frozen": (session_frozen(), "resume"),
    "policy": (policy_denied("none", "t"), "another tool"),
    "access": (access_denied("interns", "t"), "another tool"),
    "quarantined": (quarantined("t", upstream="u"), "Ask an administrator to look at it"),
    "read only": (read_only("t", why="you may only read"), "Use tools that only read"),
    "size": (arguments_too_large("t", TooLarge(limit=10, got=12)), "Send less"),
    "isolation": (isolation_unavailable("no cgroup"), "flyball doctor"),
    "ledger": (ledger_unavailable(), "Try again"),
    "overloaded": (overloaded(1_000), "Try again"),
    "loop": (in_a_loop(), "Change the arguments"),
    "paused": (in_a_loop(LoopMeasure.PAUSE), "administrator can resume"),
    "asked": (of_an_approval(ApprovalState.PENDING), "exactly the same arguments"),
    "refused": (of_an_approval(ApprovalState.REJECTED), "A person refused"),
    "unanswered": (of_an_approval(ApprovalState.EXPIRED), "ask anew"),
    "used": (of_an_approval(ApprovalState.USED), "ask for another"),
    "turns": (
        turn_limit_denied(TurnTerms(), TurnStanding(base=5, used=5)),
        "ask an administrator for more turns",
    ),
    "flow": (
        flow_denied(Stopped(rule="r", then=Then.DENY, why="nobody asked"), tool="t"),
        "what the user asked for",
    ),
    "guard": (guard_denied("g", tool="t", why="not at night"), "another way"),
    "no guard": (guard_failed("g", tool="t", why="it hangs"), "plugins.enabled"),
    "gate": (at_a_gate(), "Solve this puzzle"),
    "broken": (upstream_unavailable("It failed.", retry_after_ms=4_100), "again in 5 s"),
    "unpriced": (of_an_unpriced_tier(), "input_usd_per_mtok"),
}


NO_CHEAPER = ["clock", "slots", "rate", "calls", "turn", "closed", "frozen", "ledger"]
NO_CHEAPER += ["broken", "overloaded", "paused", "asked", "refused", "unanswered", "used", "turns"]


def test_every_reason_is_among_those_that_are_looked_at() -> None:
    assert {denied.reason for denied, _ in DENIED.values()} == set(DenialReason)


@pytest.mark.requirement("denial.remedy-helps")
@pytest.mark.parametrize(("denied", "word"), DENIED.values(), ids=DENIED)
def test_each_remedy_names_something_to_do(denied: Denied, word: str) -> None:
    assert word in denied.remedy.text
    assert denial_json(denied)["remedy"] == {
        "action": denied.remedy.action.value,
        "text": denied.remedy.text,
    }


@pytest.mark.requirement("denial.remedy-helps")
@pytest.mark.parametrize(("name", "denied"), [(name, each) for name, (each, _) in DENIED.items()])
def test_whom_to_ask_is_named_where_a_person_can_help(name: str, denied: Denied) -> None:
    remedy = advised(denied, cheaper=None, contact="ops@acme.test").remedy

    asks = name not in ("gate", "turn", "size")
    assert remedy.text.endswith("Whom to ask: ops@acme.test.") is asks
    assert remedy.contact == ("ops@acme.test" if asks else None)


@pytest.mark.requirement("denial.remedy-helps")
@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("less", RemedyAction.USE_CHEAPER_TOOL),
        ("window", RemedyAction.RETRY_LATER),
        ("spent", RemedyAction.USE_CHEAPER_TOOL),
        ("policy", RemedyAction.ASK_ADMINISTRATOR),
        ("loop", RemedyAction.CHANGE_APPROACH),
        ("unpriced", RemedyAction.ASK_ADMINISTRATOR),
    ],
)
def test_a_cheaper_way_is_named_where_it_can_help(name: str, action: RemedyAction) -> None:
    remedy = advised(DENIED[name][0], cheaper="docs__search", contact=None).remedy

    assert (remedy.action, remedy.cheaper) == (action, "docs__search")
    assert remedy.text.endswith("Cheaper: docs__search.")


@pytest.mark.parametrize("name", NO_CHEAPER)
def test_a_cheaper_way_is_not_named_where_it_would_meet_the_same_denial(name: str) -> None:
    denied = DENIED[name][0]

    assert advised(denied, cheaper="docs__search", contact=None) == denied
