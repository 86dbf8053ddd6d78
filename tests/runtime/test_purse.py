"""What an agent's run is charged of what operators' probes count."""

import pytest

from ebpf.executor import Measured
from governor.amounts import Unit
from governor.budget import Budget
from governor.call import Enforcement, Isolated
from governor.denial import DenialReason, Denied
from governor.ids import CallId
from governor.usage import OF_PROBES
from runtime.agent_runs.purse import Purse, Terms
from tests.governor.makers import budget
from tests.tool_gateway.makers import CHAIN, RULE, House

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("probes.are-units")]

ISOLATED = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="groups")


def purse_over(*budgets: Budget) -> tuple[Purse, House]:
    """Return what pays for an agent where one probe runs, with the first unit."""
    house = House(*budgets)
    terms = Terms(
        run_id=CallId("run_1"),
        chain=CHAIN,
        session_name="one",
        rule=RULE,
        policy_version="v1",
        limits=RULE.limits,
        unmeasurable=dict.fromkeys(OF_PROBES[1:], "no probe"),
        milliwatts_per_core=None,
        arguments="",
    )
    return Purse(terms=terms, books=house.books, clock=house.clock), house


def counted(count: int | None) -> Measured:
    attached = {Unit.EGRESS_BYTES: 0} | ({} if count is None else {Unit.PROBE_1: count})
    return Measured(cpu_ms=1, memory_peak_bytes=1, memory_mib_s=0, io_bytes=0, attached=attached)


async def test_each_slice_is_charged_what_was_counted_in_it_until_the_budget_is_used_up() -> None:
    purse, house = purse_over(budget("opens", probe_1=500))
    await purse.open()

    paid, left = [], []
    for total in (200, 350, 600):
        paid.append(await purse.pay(500))
        await purse.settle(counted(total), ISOLATED)
        left.append(house.ledger.remaining(Unit.PROBE_1))
    denied = await purse.pay(500)

    assert (paid, left) == ([None] * 3, [300, 150, -100])
    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.BUDGET_EXHAUSTED
    assert purse.settled.of(Unit.PROBE_1) == 600
    assert not set(OF_PROBES) & set(purse.unmeasured)


async def test_an_agent_whose_probe_ended_gets_no_further_slice_from_a_budget_on_it() -> None:
    purse, _ = purse_over(budget("opens", probe_1=500))
    await purse.open()

    assert await purse.pay(500) is None
    await purse.settle(None, ISOLATED)  # a moment at which nothing could be read
    assert await purse.pay(500) is None
    await purse.settle(counted(None), ISOLATED)
    denied = await purse.pay(500)

    assert isinstance(denied, Denied)
    assert denied.reason is DenialReason.UNIT_UNMEASURABLE
    assert "its probe ended while the agent ran" in denied.remedy.text
