"""Calls that a person approved and that wait for a slot, over the real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from governor.approval import ApprovalEvent, ApprovalState
from governor.denial import DenialReason
from governor.fairness.adaptive import Concurrency
from governor.fairness.gate import Gate, GateBounds
from governor.ids import SessionId
from governor.target import CallKind
from tests.runtime.office import EVE, MINUTE_MS, Office, Opened, opener, reason_of
from tests.tool_gateway.makers import CHAIN, a_call
from tool_gateway.contention import Contention
from tool_gateway.results import Outcome, ToolResult, text_result

pytestmark = pytest.mark.anyio

OTHER = SessionId("ada/two")
ONE_AT_A_TIME = Contention(gate=GateBounds(concurrency=Concurrency(start=1, lowest=1, highest=1)))


@pytest.fixture
def open_office(begun_state: Path) -> Opened:
    return opener(begun_state)


@asynccontextmanager
async def _approved_in_the_lane(
    open_office: Opened, results: list[ToolResult]
) -> AsyncIterator[tuple[Office, anyio.Event, anyio.CancelScope]]:
    """Yield while a call that a person approved waits for the only slot, which the event frees.

    To cancel the scope is to have the client of that call go away.
    """
    may_end, client = anyio.Event(), anyio.CancelScope()

    async def hold_the_slot() -> Outcome:
        await may_end.wait()
        return Outcome(result=text_result("done"))

    async with open_office(wait_ms=MINUTE_MS, contention=ONE_AT_A_TIME) as office:
        policy = office.house.policy
        asks, asks_nobody = policy.rules[0], replace(policy.rules[0], approval=None)

        async def call() -> None:
            with client:
                results.append(await office.call(path="a"))

        async with anyio.create_task_group() as tasks:
            office.house.backend.behave = hold_the_slot
            office.house.policy = replace(policy, rules=(asks_nobody,))
            other = replace(a_call("call_other"), chain=replace(CHAIN, session=OTHER))
            tasks.start_soon(office.house.run, other)
            await office.house.backend.started.wait()
            office.house.policy = replace(policy, rules=(asks,))
            tasks.start_soon(call)
            await office.asked()
            await office.answer(ApprovalEvent.APPROVE)
            while not _gate(office).waiting:
                await anyio.lowlevel.checkpoint()
            yield office, may_end, client
            may_end.set()


def _gate(office: Office) -> Gate:
    lane = office.house.turnstile._lanes[CallKind.TOOL, office.house.backend.name]
    return lane.gate


@pytest.mark.requirement("session.closed-denies")
async def test_killing_a_session_stops_its_approved_call_that_waits_for_a_slot(
    open_office: Opened,
) -> None:
    results: list[ToolResult] = []
    with anyio.fail_after(60):
        async with _approved_in_the_lane(open_office, results) as (office, may_end, _):
            await office.store.sessions.close(CHAIN.session, by=EVE, now_ms=2)
            stopped = office.house.running.stop_session(CHAIN.session, why="ended by eve")
            while not results:
                await anyio.lowlevel.checkpoint()
            held = await office.held()
            may_end.set()

    assert (stopped, held) == (1, 1)
    assert "ended by eve" in str(results[0].sole_text)
    assert [call.call_id for call in office.house.backend.ran] == ["call_other"]


@pytest.mark.requirement("session.frozen-denies")
async def test_an_approved_call_that_waits_for_a_slot_is_not_run_once_its_session_is_frozen(
    open_office: Opened,
) -> None:
    results: list[ToolResult] = []
    with anyio.fail_after(60):
        async with _approved_in_the_lane(open_office, results) as (office, may_end, _):
            await office.store.sessions.freeze(CHAIN.session, by=EVE, now_ms=2)
            may_end.set()
            while not results:
                await anyio.lowlevel.checkpoint()
            held, used = await office.held(), await office.used()

    assert reason_of(results[0]) == DenialReason.SESSION_FROZEN
    assert (held, used) == (0, 1)
    assert [call.call_id for call in office.house.backend.ran] == ["call_other"]


@pytest.mark.requirement("cancel.is-settled")
async def test_a_client_that_leaves_its_approved_call_in_the_lane_leaves_no_hold(
    open_office: Opened,
) -> None:
    results: list[ToolResult] = []
    with anyio.fail_after(60):
        async with _approved_in_the_lane(open_office, results) as (office, _, client):
            client.cancel()
            while await office.held() > 1:
                await anyio.lowlevel.checkpoint()
            asked = (await office.store.approvals.page()).items

    assert [one.state for one in asked] == [ApprovalState.USED]
    assert results == []
