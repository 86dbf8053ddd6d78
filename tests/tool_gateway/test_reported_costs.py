"""Costs that upstreams report, by a real server over stdio and through the pipeline."""

import logging
from dataclasses import replace

import anyio
import pytest

from governor.amounts import NOTHING, Amounts, Unit
from governor.events import Settled
from tests.governor.makers import budget
from tests.tool_gateway.makers import LIMITS, House, a_call
from tests.tool_gateway.test_upstreams import LOCAL, SECONDS_MAX, SERVER, Upstreams
from tool_gateway.ports import Meter
from tool_gateway.results import COST_META, Outcome, ToolResult
from tool_gateway.upstreams.reported import COST_MICROUSD_MAX, reported_usage
from tool_gateway.upstreams.spec import StdioSpec

pytestmark = pytest.mark.anyio

UNTRUSTED = StdioSpec(name=LOCAL, command=SERVER)
TRUSTED = replace(UNTRUSTED, trust_reported_cost=True)


def answer(cost: object) -> ToolResult:
    return ToolResult(content=(), reported_cost=cost)


@pytest.mark.requirement("cost.reported-only-if-trusted")
@pytest.mark.parametrize(("spec", "charged"), [(TRUSTED, 123), (UNTRUSTED, None)])
async def test_a_servers_own_figure_is_usage_only_where_it_is_trusted(
    spec: StdioSpec, charged: int | None
) -> None:
    async with Upstreams(spec).connected() as upstreams:
        backend = upstreams.fleet.backends[LOCAL]
        with anyio.fail_after(SECONDS_MAX):
            call = replace(a_call(cost=123), tool="local__charge")
            outcome = await backend.run(call, replace(LIMITS, wall_ms=20_000), Meter())

    assert outcome.usage.measured == (
        NOTHING if charged is None else Amounts({Unit.COST_MICROUSD: charged})
    )
    assert COST_META not in outcome.result.meta


@pytest.mark.requirement("cost.reported-only-if-trusted")
@pytest.mark.parametrize(
    "nonsense",
    [-1, True, 1.5, "12", [], {}, COST_MICROUSD_MAX + 1, 2**80, float("nan")],
)
def test_what_is_no_amount_is_ignored_with_a_line_in_the_log(
    nonsense: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        usage = reported_usage(answer(nonsense), TRUSTED)

    assert usage.measured == NOTHING
    assert "upstream local: reported a cost of" in caplog.text


@pytest.mark.parametrize("cost", [0, 1, COST_MICROUSD_MAX])
def test_every_amount_up_to_the_bound_is_believed(cost: int) -> None:
    assert reported_usage(answer(cost), TRUSTED).measured == Amounts({Unit.COST_MICROUSD: cost})


def test_an_answer_that_reports_nothing_is_usage_of_nothing() -> None:
    assert reported_usage(answer(None), TRUSTED).measured == NOTHING


@pytest.mark.requirement("overrun.is-recorded")
@pytest.mark.parametrize(("cost", "left"), [(3, 97), (0, 100), (150, -50)])
async def test_the_reported_cost_is_charged_in_place_of_the_rules_price(
    cost: int, left: int
) -> None:
    house = House(budget("money", cost_microusd=100))

    async def behave() -> Outcome:
        result = answer(cost)
        return Outcome(result=result, usage=reported_usage(result, TRUSTED))

    house.backend.behave = behave
    await house.run()

    assert isinstance(house.ended, Settled)
    assert house.ledger.remaining(Unit.COST_MICROUSD) == left
    assert house.ended.charges[0].overrun == max(0, cost - 7)
