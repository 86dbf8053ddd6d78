from dataclasses import replace

import anyio
import pytest

from governor.amounts import Amounts, Unit
from governor.limits import Isolation
from governor.unified_cost import UnifiedPrices
from governor.usage import OF_PROBES, OF_THE_MACHINE, Usage
from tests.governor.makers import budget
from tests.tool_gateway.makers import RULE, House
from tool_gateway.results import DENIAL_META, Json, Outcome, text_result

pytestmark = pytest.mark.anyio


async def never_answer() -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


def reason_of(meta: Json) -> object:
    denial = meta[DENIAL_META]
    assert isinstance(denial, dict)
    return denial["reason"]


@pytest.mark.requirement("unit.unmeasurable-denies")
@pytest.mark.parametrize("unit", [*OF_THE_MACHINE, *OF_PROBES])
async def test_each_unit_of_the_machine_denies_unmeasured_unless_the_rule_takes_the_estimate(
    unit: Unit,
) -> None:
    limit = budget("machine", **{unit.value: 1_000})
    lenient = replace(RULE, isolation=Isolation.BEST_EFFORT, estimates=Amounts({unit: 40}))
    strict, loose = House(limit), House(limit, rule=lenient)
    for house in (strict, loose):
        house.backend.unmeasurable = {unit: "elsewhere"}

    denied, ran = await strict.run(), await loose.run()

    assert reason_of(denied.meta) == "unit_unmeasurable"
    assert not ran.is_error
    assert loose.ledger.remaining(unit) == 960
    assert loose.record.usage is not None
    assert loose.record.usage.unmeasured[unit] == "elsewhere"


async def test_a_record_names_no_unit_that_no_probe_is_assigned_to() -> None:
    house = House()
    house.backend.unmeasurable = dict.fromkeys((Unit.CPU_MS, *OF_PROBES), "elsewhere")

    await house.run()

    assert house.record.usage is not None
    assert house.record.usage.unmeasured[Unit.CPU_MS] == "elsewhere"
    assert not set(OF_PROBES) & set(house.record.usage.unmeasured)


@pytest.mark.requirement("probes.are-units")
async def test_what_one_call_counted_beyond_the_budget_denies_the_next() -> None:
    async def count() -> Outcome:
        return Outcome(
            result=text_result("done"), usage=Usage(measured=Amounts({Unit.PROBE_1: 600}))
        )

    house = House(budget("opens", probe_1=500), behave=count)

    first, second = await house.run(), await house.run()

    assert not first.is_error
    assert reason_of(second.meta) == "budget_exhausted"


@pytest.mark.requirement("context.tokens-are-counted")
async def test_the_text_that_goes_back_is_charged_as_context_and_not_what_was_cut_away() -> None:
    async def write() -> Outcome:
        return Outcome(result=text_result("x" * 40_000))

    cut = House(budget("context", context_tokens=5_000), behave=write)
    whole = House(
        budget("context", context_tokens=50_000),
        rule=replace(RULE, archive_above_bytes=100_000),
        behave=write,
    )

    shown = await cut.run()
    await whole.run()

    chars = sum(len(str(block["text"])) for block in shown.content)
    assert 5_000 - cut.ledger.remaining(Unit.CONTEXT_TOKENS) == -(-chars // 4) < 1_100
    assert 50_000 - whole.ledger.remaining(Unit.CONTEXT_TOKENS) == 10_000
    assert cut.record.usage is not None
    assert cut.record.usage.estimated == (Unit.CONTEXT_TOKENS,)


@pytest.mark.requirement("context.tokens-are-counted")
async def test_a_context_that_cannot_take_an_uncut_result_starts_no_call() -> None:
    house = House(budget("context", context_tokens=4_095))

    denied = await house.run()

    assert reason_of(denied.meta) == "budget_exhausted"
    assert house.backend.ran == []


async def test_a_client_that_went_away_reads_nothing() -> None:
    house = House(budget("context", context_tokens=5_000), behave=never_answer)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await house.backend.started.wait()
            tasks.cancel_scope.cancel()

    assert house.ledger.remaining(Unit.CONTEXT_TOKENS) == 5_000


@pytest.mark.requirement("cost.unified-beside-parts")
async def test_a_result_says_the_unified_cost_beside_its_parts() -> None:
    async def compute() -> Outcome:
        return Outcome(
            result=text_result("done"), usage=Usage(measured=Amounts({Unit.CPU_MS: 1_001}))
        )

    house = House(behave=compute)
    prices = UnifiedPrices(tool_call_microusd=20, cpu_second_microusd=100)
    house.policy = replace(house.policy, unified=prices)

    result = await house.run()

    call = result.meta["flyball/call"]
    assert isinstance(call, dict)
    assert call["unified_cost_microusd"] == 7 + 20 + 101
    assert (call["usage"]["cost_microusd"], call["usage"]["estimated"]) == (7, ["context_tokens"])
