"""A replay decides as the ledger would: it is compared with a ledger that ran the same calls."""

from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC
from typing import TypeVar
from zoneinfo import ZoneInfo

import pytest
from contracts.builders import TENANT, budget, record, request
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.budget import Budget, BudgetKind, Mode, Overdraft
from governor.denial import Denied
from governor.ids import CallId, PrincipalId, SessionId, TurnId
from governor.preview import (
    EXAMPLES_MAX,
    BudgetReplay,
    Lineup,
    PastCall,
    in_order,
    never_forgets,
    warm_up_ms,
)
from governor.scope import ScopeChain, ScopeKind
from governor.target import CallKind, CallTarget, TargetMatch
from governor.usage import Usage
from governor.window import Calendar, Fixed, Lifetime, Period, Sliding
from memory_store.records import charged_when_settled
from memory_store.testing import MemoryLedger

T = TypeVar("T")

COST, CALLS, TURNS = Unit.COST_MICROUSD, Unit.TOOL_CALLS, Unit.TURNS
HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_790_000_000_000

LISBON = Calendar(period=Period.DAY, time_zone="Europe/Lisbon", zone=ZoneInfo("Europe/Lisbon"))
MONTH = Calendar(period=Period.MONTH, time_zone="UTC", zone=UTC)
BUDGETS = [
    budget({COST: 100}),
    budget({COST: 60, CALLS: 3}, scope=ScopeKind.SESSION),
    budget({COST: 90}, scope=ScopeKind.AGENT, subject="ada", window=Fixed(2 * HOUR)),
    budget({COST: 80}, window=LISBON),
    budget({COST: 80}, window=MONTH, scope=ScopeKind.AGENT),
    budget({COST: 60}, window=Sliding(length_ms=3 * HOUR, buckets=6)),
    budget({CALLS: 2}, kind=BudgetKind.RATE, burst=3, window=Fixed(HOUR)),
    budget({COST: 50}, kind=BudgetKind.RATE, window=Fixed(HOUR), scope=ScopeKind.SESSION),
    budget({CALLS: 1}, kind=BudgetKind.CONCURRENCY),
    budget({TURNS: 2}, scope=ScopeKind.SESSION),
    budget({COST: 40}, match=TargetMatch(tool="files__*")),
    budget({COST: 40}, match=TargetMatch(tier="high")),
    budget({COST: 70}, overdraft=Overdraft.ALLOW_AND_DEBT),
    budget({COST: 30}, mode=Mode.OBSERVE),
]
TARGETS = (
    CallTarget(kind=CallKind.TOOL, name="files__read", upstream="files"),
    CallTarget(kind=CallKind.MODEL, name="big", upstream="lab", tier="high"),
)


# Of minutes as often as of hours: a rate of some an hour tells them apart.
SPANS = st.integers(1, 8 * 60_000) | st.integers(1, 3 * HOUR)


@st.composite
def past_calls(draw: st.DrawFn) -> list[PastCall]:
    found, at_ms = [], START
    for number in range(draw(st.integers(0, 25))):
        at_ms += draw(SPANS)
        held = draw(st.integers(0, 50))
        estimate = Amounts({COST: held, CALLS: 1})
        measured = Usage(measured=Amounts({COST: draw(st.integers(0, 70)), CALLS: 1}))
        found.append(
            PastCall(
                call_id=CallId(f"call-{number}"),
                target=draw(st.sampled_from(TARGETS)),
                chain=ScopeChain(
                    tenant=TENANT,
                    agent=PrincipalId(agent := draw(st.sampled_from(["ada", "bob"]))),
                    session=SessionId(f"{agent}-{draw(st.integers(0, 1))}"),
                ),
                turn=TurnId(f"turn-{draw(st.integers(0, 3))}"),
                started_at_ms=at_ms,
                # Ends and starts at one moment have no order that anybody kept.
                ended_at_ms=at_ms + draw(SPANS),
                estimate=estimate,
                charged=charged_when_settled(estimate, measured),
            )
        )
    moments = [one.started_at_ms for one in found]
    return [
        replace(one, ended_at_ms=one.ended_at_ms + (one.ended_at_ms in moments)) for one in found
    ]


async def denied_by_a_ledger(governing: Budget, calls: list[PastCall]) -> set[CallId]:
    ledger = MemoryLedger()
    ledger.put_budget(replace(governing, mode=Mode.ENFORCE))
    asked_by_call = {call.call_id: _asked(call) for call in calls}
    moments = [(call.started_at_ms, True, call) for call in calls]
    moments += [(call.ended_at_ms, False, call) for call in calls]
    denied = set()
    for _, is_start, call in sorted(moments, key=lambda one: one[:2]):
        asked = asked_by_call[call.call_id]
        if is_start:
            if isinstance(await ledger.admit(asked), Denied):
                denied.add(call.call_id)
        elif call.call_id not in denied:
            usage = Usage(measured=Amounts({COST: call.charged.of(COST), CALLS: 1}))
            ended = record(asked, usage=usage, ended_at_ms=call.ended_at_ms)
            await ledger.settle(asked.reservation_id, usage, ended)
    return denied


def _asked(call: PastCall) -> AdmissionRequest:
    asked = request(call.estimate.by_unit, of=call.chain, turn=call.turn, now_ms=call.started_at_ms)
    return replace(asked, target=call.target, expires_at_ms=call.ended_at_ms + 1)


def at_once(work: Coroutine[object, None, T]) -> T:
    """Return what comes of work that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("it waited")


@pytest.mark.requirement("preview.as-the-ledger")
@settings(max_examples=300, deadline=None)
@given(governing=st.sampled_from(BUDGETS), calls=past_calls())
def test_a_replay_denies_what_a_ledger_with_the_budget_denies(
    governing: Budget, calls: list[PastCall]
) -> None:
    replay = BudgetReplay(governing, from_ms=0)

    denied = {call.call_id for call in in_order(calls) if replay.take(call)}

    assert denied == at_once(denied_by_a_ledger(governing, calls))
    assert replay.denied == len(denied)
    assert sum(one.denied for one in replay.by_name) == len(denied)
    assert sum(one.calls for one in replay.by_day) == replay.calls


@pytest.mark.requirement("preview.whole")
@settings(max_examples=40)
@given(calls=past_calls(), step=st.integers(1, 5))
def test_calls_that_come_by_their_end_are_handed_on_by_their_start(
    calls: list[PastCall], step: int
) -> None:
    by_end = sorted(calls, key=lambda call: (call.ended_at_ms, call.call_id))
    longest_ms = max((call.ended_at_ms - call.started_at_ms for call in calls), default=0)
    lineup, short = (Lineup(held_back_ms=longest_ms + 1, held_max=size) for size in (1_000, 0))

    found: list[PastCall] = []
    at_once: list[PastCall] = []
    for start in range(0, len(by_end), step):
        part = by_end[start : start + step]
        for call in part:
            lineup.add(call)
            short.add(call)
        found += lineup.due(ended_until_ms=part[-1].ended_at_ms)
        at_once += short.due(ended_until_ms=part[-1].ended_at_ms)
    found += lineup.due(ended_until_ms=None)

    assert found == list(in_order(calls))
    assert lineup.late == 0
    assert len(at_once) == len(calls), "no more are held than may be"
    starts = [call.started_at_ms for call in at_once]
    assert short.late == sum(at < max(starts[:n], default=at) for n, at in enumerate(starts))


def _call(number: int, *, at_ms: int, cost: int = 10, denied: bool = False) -> PastCall:
    return PastCall(
        call_id=CallId(f"call-{number}"),
        target=TARGETS[0],
        chain=ScopeChain(tenant=TENANT, agent=PrincipalId("ada"), session=SessionId("one")),
        turn=None,
        started_at_ms=at_ms,
        ended_at_ms=at_ms + 5,
        estimate=Amounts({COST: cost, CALLS: 1}),
        charged=Amounts({COST: 0 if denied else cost, CALLS: 0 if denied else 1}),
        was_denied=denied,
    )


@pytest.mark.requirement("preview.as-the-ledger")
def test_what_a_call_held_of_a_rate_and_did_not_use_comes_back_only_once() -> None:
    minute = 60_000
    governing = budget({COST: 60}, kind=BudgetKind.RATE, window=Fixed(HOUR))
    calls = [
        replace(
            _call(number, at_ms=START + at * minute, cost=held),
            ended_at_ms=START + end * minute,
            charged=Amounts({COST: charged, CALLS: 1}),
        )
        for number, (at, end, held, charged) in enumerate(
            [(0, 1, 40, 40), (1, 11, 20, 0), (12, 13, 25, 25), (14, 15, 23, 23)]
        )
    ]
    replay = BudgetReplay(governing, from_ms=0)

    denied = {call.call_id for call in in_order(calls) if replay.take(call)}

    assert denied == {"call-2"} == at_once(denied_by_a_ledger(governing, calls))


def test_what_was_used_before_the_days_that_are_asked_for_counts_and_is_not_told() -> None:
    replay = BudgetReplay(budget({COST: 25}, window=Fixed(DAY)), from_ms=START + 50)

    for number in range(6):
        replay.take(_call(number, at_ms=START + 20 * number))

    assert (replay.calls, replay.denied) == (3, 3)
    assert replay.examples[0].used == 20
    assert replay.denied_cost_microusd == 30


@pytest.mark.requirement("preview.honest")
def test_calls_that_were_denied_then_use_nothing_and_are_counted_apart() -> None:
    replay = BudgetReplay(budget({COST: 20}), from_ms=0)

    told = [replay.take(_call(n, at_ms=START + 10 * n, denied=n < 3)) for n in range(6)]

    assert told == [False, False, False, False, False, True]
    assert (replay.denied_then, replay.calls, replay.denied) == (3, 3, 1)


@pytest.mark.requirement("preview.honest")
def test_calls_without_an_estimate_or_a_measure_are_counted_as_such() -> None:
    replay = BudgetReplay(budget({COST: 1_000}), from_ms=0)
    blind = replace(_call(1, at_ms=START), estimate=Amounts({CALLS: 1}))
    unmeasured = replace(_call(2, at_ms=START + 10), unmeasured=frozenset({COST}))

    for call in (blind, unmeasured, _call(3, at_ms=START + 20)):
        replay.take(call)

    assert (replay.without_estimate, replay.unmeasured) == (1, 1)
    assert replay.peaks[0].used == 30


def test_examples_are_bounded_and_peaks_name_whose_they_were() -> None:
    replay = BudgetReplay(budget({COST: 15}, scope=ScopeKind.SESSION), from_ms=0)

    for number in range(3 * EXAMPLES_MAX):
        replay.take(_call(number, at_ms=START + 10 * number))

    assert len(replay.examples) == EXAMPLES_MAX
    assert replay.denied == 3 * EXAMPLES_MAX - 1
    assert [(one.unit, one.used, one.subject) for one in replay.peaks] == [(COST, 10, "one")]


def test_a_replay_begins_where_use_begins_to_count() -> None:
    def since(window: Fixed | Calendar | Sliding | Lifetime) -> int:
        return warm_up_ms(budget({COST: 1}, window=window), START)

    assert since(Lifetime()) == 0
    assert since(Fixed(HOUR)) == START - START % HOUR
    assert since(Sliding(length_ms=HOUR, buckets=4)) <= START - HOUR
    assert since(MONTH) < START
    rate = budget({CALLS: 2}, kind=BudgetKind.RATE, burst=6, window=Fixed(HOUR))
    assert warm_up_ms(rate, START) == START - 3 * HOUR - 1
    assert [never_forgets(one) for one in (budget({COST: 1}), rate)] == [True, False]


def test_sub_sessions_are_charged_to_the_session_at_their_head() -> None:
    replay = BudgetReplay(budget({CALLS: 2}, scope=ScopeKind.SESSION), from_ms=0)
    below = ScopeChain(
        tenant=TENANT,
        agent=PrincipalId("ada"),
        session=SessionId("below"),
        ancestors=(SessionId("one"),),
    )

    calls = [_call(number, at_ms=START + 10 * number) for number in range(4)]
    calls[1::2] = [replace(call, chain=below) for call in calls[1::2]]

    told = [replay.take(call) for call in calls]

    assert told == [False, False, True, True]
    assert [(one.name, one.denied) for one in replay.by_subject] == [("one", 2)]
    assert replay.in_sub_sessions == 2
